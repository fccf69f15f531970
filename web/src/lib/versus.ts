/** Two models concept by concept: figures are the first named model less the second. */
import { nnn, table } from "./data";
import type { Site } from "./types";

export interface Versus {
  n: number;
  concept: Int32Array;
  difference: Float32Array;
  low: Float32Array;
  high: Float32Array;
  /** The smaller q of worse and better. */
  q: Float32Array;
  /** The difference beyond that of the two models' means, and the smaller q of it. */
  effect: Float32Array;
  q_effect: Float32Array;
  n_eff: Float32Array;
  n_active: Float32Array;
}

/** The comparison, or null where a published page does not hold it. */
export function loadVersus(site: Site, a: number, b: number): Promise<Versus> | null {
  const [first, second] = a < b ? [a, b] : [b, a];
  const there = site.versus === "all" || site.versus.some(([x, y]) => x === first && y === second);
  if (!site.has.gaps || !there) return null;
  return table(`versus/${nnn(first)}-${nnn(second)}.parquet`).then((t) => {
    // the file holds the model of the smaller code less the other
    const turned = (name: string): Float32Array => (a < b ? t.numbers(name) : t.numbers(name).map((v) => -v));
    const smaller = (x: string, y: string): Float32Array => {
      const [p, q] = [t.numbers(x), t.numbers(y)];
      return p.map((v, k) => Math.min(v, q[k]));
    };
    const ends = [turned("low"), turned("high")];
    const [low, high] = a < b ? ends : ends.reverse();
    return {
      n: t.n, concept: t.codes("concept"), difference: turned("difference"), low, high,
      q: smaller("q_worse", "q_better"), effect: turned("effect"), q_effect: smaller("q_low", "q_high"),
      n_eff: t.numbers("n_eff"), n_active: t.numbers("n_active"),
    };
  });
}
