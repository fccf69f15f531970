/** The few figures that are computed in the browser, because they depend on a selection. */

export interface Mean {
  mean: number;
  low: number;
  high: number;
  n: number;
}

const Z = 1.959964;

/**
 * Mean of values over items with its 95 % interval. Near-duplicates count together: the variance
 * is that of sums over groups (linearised), with G/(G-1). Values are shares in [0, 1], or differences
 * of two such, whose interval ends at -1 and 1.
 */
export function groupedMean(
  values: ArrayLike<number>,
  rows: ArrayLike<number>,
  group: Int32Array,
  share = true,
): Mean {
  let n = 0;
  let total = 0;
  for (let k = 0; k < rows.length; k++) {
    const v = values[rows[k]];
    if (v === v) {
      n++;
      total += v;
    }
  }
  if (!n) return { mean: NaN, low: NaN, high: NaN, n: 0 };
  const mean = total / n;
  const sums = new Map<number, number>();
  let squares = 0;
  let groups = 0;
  for (let k = 0; k < rows.length; k++) {
    const v = values[rows[k]];
    if (v !== v) continue;
    const g = group[rows[k]];
    if (g < 0) {
      squares += (v - mean) ** 2;
      groups++;
    } else sums.set(g, (sums.get(g) ?? 0) + v - mean);
  }
  for (const s of sums.values()) squares += s * s;
  groups += sums.size;
  if (groups < 2) return { mean, low: NaN, high: NaN, n };
  if (share) return wilson(mean, n, (squares * groups) / (groups - 1) / n ** 2);
  const half = Z * Math.sqrt((squares * groups) / (groups - 1)) / n;
  return { mean, low: Math.max(-1, mean - half), high: Math.min(1, mean + half), n };
}

/**
 * Wilson's interval at the effective number that the variance stands for: mean (1 - mean) /
 * variance for what is right or wrong, so that 0 % and 100 % have an interval, too.
 */
function wilson(mean: number, n: number, variance: number): Mean {
  const binomial = mean * (1 - mean);
  const m = variance > 0 && binomial > 0 ? Math.min(binomial / variance, 1e9) : n;
  const middle = (mean + (Z * Z) / (2 * m)) / (1 + (Z * Z) / m);
  const half = (Z / (1 + (Z * Z) / m)) * Math.sqrt(binomial / m + (Z * Z) / (4 * m * m));
  return { mean, low: Math.max(0, middle - half), high: Math.min(1, middle + half), n };
}

/** Two-sided p of a mean of 0 by its 95 % interval, as of a normal; NaN where there is none. */
export function pValue(d: Mean): number {
  const half = (d.high - d.low) / 2;
  return half > 0 ? 2 * upperTail((Z * Math.abs(d.mean)) / half) : NaN;
}

/** P(Z > z) of a standard normal, z from 0: to 1.5e-7 (Abramowitz and Stegun 7.1.26). */
function upperTail(z: number): number {
  const x = z / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  return 0.5 * t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-x * x);
}

/** Benjamini and Hochberg's q-values; what is not known is not counted. */
export function qValues(p: number[]): number[] {
  const order = [...p.keys()].filter((k) => p[k] === p[k]).sort((a, b) => p[b] - p[a]);
  const q = new Array<number>(p.length).fill(NaN);
  let least = 1;
  order.forEach((k, turn) => (q[k] = least = Math.min(least, (p[k] * order.length) / (order.length - turn))));
  return q;
}

/** Difference of two models over the items that both answered. */
export function paired(a: Float32Array, b: Float32Array, rows: ArrayLike<number>, group: Int32Array): Mean {
  const difference = new Float32Array(a.length);
  for (let i = 0; i < a.length; i++) difference[i] = a[i] - b[i];
  return groupedMean(difference, rows, group, false);
}

/**
 * Mean on the items that are not chosen, each benchmark weighted as among the chosen ones that have
 * a value; NaN where a benchmark has nothing outside of the selection.
 */
export function likewise(values: Float32Array, benchmark: Int32Array, chosen: Uint8Array, n_benchmarks: number): number {
  const weight = new Float64Array(n_benchmarks);
  const total = new Float64Array(n_benchmarks);
  const n = new Float64Array(n_benchmarks);
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    if (v !== v) continue;
    const b = benchmark[i];
    if (chosen[i]) weight[b]++;
    else {
      total[b] += v;
      n[b]++;
    }
  }
  const all = weight.reduce((s, w) => s + w, 0);
  return weight.reduce((s, w, b) => (w ? s + (w / all) * (total[b] / n[b]) : s), all ? 0 : NaN);
}

export interface Typical {
  concept: number;
  n: number;
  share: number;
  rest: number;
  lift: number;
}

/**
 * Concepts that are among the strongest of many selected items and of few others.
 *
 * `features` holds `width` concepts an item, -1 for none. Ordered by the lower end of the difference
 * of the two shares, so that one or two items do not lead.
 */
export function typical(features: Int32Array, width: number, chosen: Uint8Array, n_concepts: number): Typical[] {
  const inside = new Int32Array(n_concepts);
  const outside = new Int32Array(n_concepts);
  let n_in = 0;
  for (let i = 0; i < chosen.length; i++) {
    n_in += chosen[i];
    const counts = chosen[i] ? inside : outside;
    for (let k = i * width; k < (i + 1) * width; k++) if (features[k] >= 0) counts[features[k]]++;
  }
  const n_out = chosen.length - n_in;
  const found: (Typical & { key: number })[] = [];
  for (let c = 0; c < n_concepts; c++) {
    if (inside[c] < 2) continue;
    const share = inside[c] / Math.max(1, n_in);
    const rest = outside[c] / Math.max(1, n_out);
    const sd = Math.sqrt((share * (1 - share)) / Math.max(1, n_in) + (rest * (1 - rest)) / Math.max(1, n_out));
    const key = share - rest - Z * sd;
    if (key > 0) found.push({ concept: c, n: inside[c], share, rest, lift: share / Math.max(rest, 1 / Math.max(1, n_out)), key });
  }
  return found.sort((a, b) => b.key - a.key).slice(0, 30);
}

export function quantiles(values: Float32Array, at: number[]): number[] {
  const sorted = values.filter((v) => v === v).sort();
  if (!sorted.length) return at.map(() => NaN);
  return at.map((p) => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))]);
}
