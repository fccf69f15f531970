/** One model's concepts, of one scope, in the order of the file. */
import { nnn, table } from "./data";

export const ALL = -1;

export interface Performance {
  n: number;
  concept: Int32Array;
  score: Float32Array;
  low: Float32Array;
  high: Float32Array;
  effect: Float32Array;
  shrunk: Float32Array;
  q_low: Float32Array;
  q_high: Float32Array;
  n_active: Float32Array;
  n_eff: Float32Array;
  adjusted: Float32Array;
  q_adjusted_low: Float32Array;
  q_adjusted_high: Float32Array;
  p_family_low: Float32Array;
  p_family_high: Float32Array;
}

const NUMBERS = [
  "score", "low", "high", "effect", "shrunk", "q_low", "q_high", "n_active", "n_eff", "adjusted",
  "q_adjusted_low", "q_adjusted_high", "p_family_low", "p_family_high",
] as const;

/** Every scope of a model, -1 for all benchmarks together. */
export async function loadPerformance(model: number): Promise<Map<number, Performance>> {
  const t = await table(`performance/${nnn(model)}.parquet`);
  const scope = t.codes("scope");
  const concept = t.codes("concept");
  const values = Object.fromEntries(NUMBERS.map((k) => [k, t.numbers(k)])) as Record<(typeof NUMBERS)[number], Float32Array>;
  const rows = new Map<number, number[]>();
  for (let k = 0; k < t.n; k++) {
    const held = rows.get(scope[k]);
    if (held) held.push(k);
    else rows.set(scope[k], [k]);
  }
  const out = new Map<number, Performance>();
  for (const [code, at] of rows) {
    const picked = Object.fromEntries(NUMBERS.map((k) => [k, Float32Array.from(at, (i) => values[k][i])]));
    out.set(code, { n: at.length, concept: Int32Array.from(at, (i) => concept[i]), ...picked } as unknown as Performance);
  }
  return out;
}

export const LEVEL = 0.05;

/** Whether a weakness is the model's own: what is left after the others' scores is surely below 0, too. */
export function own(p: Performance, k: number): boolean {
  return p.q_low[k] < LEVEL && p.q_adjusted_low[k] < LEVEL;
}
