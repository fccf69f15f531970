import { expect, test } from "vitest";
import { csv } from "../src/lib/download";
import { fixed, points, probability, short } from "../src/lib/format";
import { besides, csvRows, orderOf, search, sorted, type ColumnOf } from "../src/lib/grid";

const rows = Int32Array.from([0, 1, 2, 3, 4]);

test("numbers sort by size, the unknown last in both directions, equal ones keep their order", () => {
  const values = [2, null, 10, 2, NaN];
  const column = { key: "v", label: "v", value: (i: number) => values[i] };
  expect([...sorted(rows, column, false)]).toEqual([0, 3, 2, 1, 4]);
  expect([...sorted(rows, column, true)]).toEqual([2, 0, 3, 1, 4]);
});

test("texts sort, the unknown last", () => {
  const values = ["b", null, "a", "b", "c"];
  const column = { key: "v", label: "v", value: (i: number) => values[i] };
  expect([...sorted(rows, column, false)]).toEqual([2, 0, 3, 4, 1]);
  expect([...sorted(rows, column, true)]).toEqual([4, 0, 3, 2, 1]);
});

test("an order that an address asks for, if there is such a column", () => {
  const columns = [{ key: "v", label: "v", value: () => 1 }];
  expect(orderOf("v", columns)).toEqual({ key: "v", descending: false });
  expect(orderOf("-v", columns)).toEqual({ key: "v", descending: true });
  for (const asked of [null, "", "-", "w", "--v"]) expect(orderOf(asked, columns)).toBe(null);
});

test("a search needs every word, in any order and case", () => {
  const lower = ["modular arithmetic", "arithmetic", "modular form", "", "x"];
  expect([...search(rows, lower, " Arithmetic MODULAR ")]).toEqual([0]);
  expect(search(rows, lower, "  ")).toBe(rows);
});

test("CSV: quotes, line ends, unknown figures, and no formula of a name", () => {
  const text = csv(["a", "b"], [['say "x"', 1.5], ["=cmd|' /C calc'!A0", NaN], ["two\nlines", null]]);
  expect(text).toBe("a,b\r\n\"say \"\"x\"\"\",1.5\r\n'=cmd|' /C calc'!A0,\r\n\"two\nlines\",\r\n");
});

test("figures as they are read", () => {
  expect(fixed(-0.001, 2)).toBe("0.00");
  expect(fixed(-1.256, 2)).toBe("−1.26");
  expect(points(0.0312)).toBe("+3.1");
  expect(points(-0.0312)).toBe("−3.1");
  expect(probability(0.0004)).toBe("< .001");
  expect(probability(0.0312)).toBe(".031");
  expect(fixed(null)).toBe("–");
  expect(short("🙂🙂🙂🙂", 3)).toBe("🙂🙂…");
});

test("a table as CSV: shares in percent with their ends, what stands beside them in columns of its own", () => {
  const columns: ColumnOf[] = [
    { key: "a", label: "model", value: (i) => `m${i}`, more: { id: (i) => i } },
    { key: "b", label: "score", unit: "%", value: (i) => [0.935, null][i], ends: (i) => (i ? [null, null] : [0.926, 0.945]), beside: () => "n 7", more: { n: () => 7 } },
    { key: "c", label: "effect, points", unit: "points", value: () => -0.04699999839067459 },
  ];
  const { head, body } = csvRows(Int32Array.from([0, 1]), columns);
  expect(csv(head, body)).toBe(
    'model,model: id,"score, %","score, %: low","score, %: high",score: n,"effect, points"\r\nm0,0,93.5,92.6,94.5,7,-4.7\r\nm1,1,,,,7,-4.7\r\n',
  );
  expect(besides(columns[1], 0)).toBe("[92.6, 94.5] n 7");
  expect(besides(columns[1], 1)).toBe("n 7");
});
