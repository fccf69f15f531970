import { describe, expect, test } from "vitest";
import { groupedMean, likewise, paired, pValue, quantiles, qValues, typical } from "../src/lib/stats";

const alone = (n: number): Int32Array => new Int32Array(n).fill(-1);
const all = (n: number): Int32Array => Int32Array.from({ length: n }, (_, i) => i);

describe("means over items", () => {
  test("Wilson's interval with the sample variance, by hand: 8 of 10", () => {
    const found = groupedMean([1, 1, 1, 1, 1, 1, 1, 1, 0, 0], all(10), alone(10));
    // variance of the mean with n - 1 stands for 9 items: Wilson at p = .8, n = 9
    const [p, n, z] = [0.8, 9, 1.959964];
    const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
    const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
    expect(found.mean).toBeCloseTo(0.8, 10);
    expect(found.low).toBeCloseTo(middle - half, 6);
    expect(found.high).toBeCloseTo(middle + half, 6);
  });
  test("all right still has an interval", () => {
    const found = groupedMean([1, 1, 1, 1, 1], all(5), alone(5));
    expect(found.high).toBe(1);
    expect(found.low).toBeGreaterThan(0.3);
    expect(found.low).toBeLessThan(0.8);
  });
  test("near-duplicates count together: a wider interval", () => {
    const values = [1, 1, 1, 1, 0, 0, 0, 0];
    const free = groupedMean(values, all(8), alone(8));
    const tied = groupedMean(values, all(8), Int32Array.from([0, 0, 1, 1, 2, 2, 3, 3]));
    expect(tied.mean).toBe(free.mean);
    expect(tied.high - tied.low).toBeGreaterThan(1.2 * (free.high - free.low));
  });
  test("what is not known is left out; nothing known is not 0", () => {
    expect(groupedMean([NaN, 1, 0], all(3), alone(3)).n).toBe(2);
    expect(groupedMean([NaN], all(1), alone(1)).mean).toBeNaN();
    expect(groupedMean([1], all(1), alone(1)).low).toBeNaN();
  });
});

test("a paired difference: only common items, the interval of a mean of differences", () => {
  const a = Float32Array.from([1, 1, 0, 1, NaN]);
  const b = Float32Array.from([0, 1, 0, 0, 1]);
  const found = paired(a, b, all(5), alone(5));
  expect(found.n).toBe(4);
  expect(found.mean).toBeCloseTo(0.5, 10);
  const sd = Math.sqrt((4 * 0.25) / 3); // differences 1 0 0 1
  expect(found.mean - found.low).toBeCloseTo((1.959964 * sd) / 2, 6);
  expect(found.high).toBe(1); // no difference is larger
});

test("typical concepts: of the selection and of few others", () => {
  const n = 200;
  const features = new Int32Array(2 * n).fill(-1);
  const chosen = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    features[2 * i] = 0; // everywhere
    if (i < 40) chosen[i] = 1;
    if (i < 30) features[2 * i + 1] = 7; // of the selection alone
  }
  const found = typical(features, 2, chosen, 10);
  expect(found.map((f) => f.concept)).toEqual([7]);
  expect(found[0].share).toBeCloseTo(0.75, 10);
  expect(found[0].rest).toBe(0);
});

test("quantiles leave out what is not known", () => {
  expect(quantiles(Float32Array.from([3, NaN, 1, 2]), [0, 0.99])).toEqual([1, 3]);
  expect(quantiles(Float32Array.from([NaN]), [0.5])[0]).toBeNaN();
});

test("elsewhere: the other items, mixed as the selection is", () => {
  const values = Float32Array.from([1, 0, 1, 0, 0, 1, NaN]);
  const benchmark = Int32Array.from([0, 0, 1, 1, 1, 1, 0]);
  const chosen = Uint8Array.from([1, 0, 1, 1, 0, 0, 1]); // one of benchmark 0, two of benchmark 1
  expect(likewise(values, benchmark, chosen, 2)).toBeCloseTo(0 / 3 + (2 / 3) * 0.5, 10);
  expect(likewise(values, benchmark, Uint8Array.from([1, 1, 0, 0, 0, 0, 1]), 2)).toBeNaN();
});

describe("differences", () => {
  test("p by the interval, as of a normal", () => {
    expect(pValue({ mean: 0.04, low: 0.04 - 1.959964 * 0.02, high: 0.04 + 1.959964 * 0.02, n: 9 })).toBeCloseTo(0.0455, 4);
    expect(pValue({ mean: 0.1, low: 0.1, high: 0.1, n: 1 })).toBeNaN();
  });
  test("q-values by hand: .01 x 4, .02 x 4 / 2, .04 x 4 / 3, .5", () => {
    const q = qValues([0.02, 0.5, NaN, 0.01, 0.04]);
    [0.04, 0.5, NaN, 0.04, 0.04 * 4 / 3].forEach((v, k) => (v === v ? expect(q[k]).toBeCloseTo(v, 12) : expect(q[k]).toBeNaN()));
  });
});
