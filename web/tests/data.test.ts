import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readTable } from "../src/lib/data";

/** tests/data.parquet is made by polars as the explorer makes its files: tools/make_web_table.py. */
test("a table of polars is read: zstd, small integers, nulls, texts, several row groups", async () => {
  const bytes = readFileSync(new URL("./data.parquet", import.meta.url));
  const t = await readTable(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
  expect(t.n).toBe(1000);
  const code = t.codes("code");
  const share = t.numbers("share");
  const text = t.texts("text");
  const flag = t.flags("flag");
  for (const i of [0, 1, 2, 3, 499, 500, 999]) {
    expect(code[i]).toBe(i % 7 === 3 ? -1 : i % 250);
    if (i % 5 === 2) expect(share[i]).toBeNaN();
    else expect(share[i]).toBeCloseTo(i / 1000, 6);
    expect(text[i]).toBe(i % 11 === 4 ? null : `<b>“${i}”‮`);
    expect(flag[i]).toBe(i % 3 === 0);
  }
  expect(() => t.numbers("none")).toThrow("no column none");
});
