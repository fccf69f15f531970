/** Sorting and searching rows of a large table, and the table as CSV. */
import type { CsvValue } from "./download";
import { known, range } from "./format";

export interface ColumnOf {
  key: string;
  label: string;
  /** A term of the glossary. */
  term?: string;
  /** Of row i: what is sorted by, and what is shown where `show` is absent. */
  value: (i: number) => number | string | null;
  show?: (i: number) => string;
  /** Of a share or a difference of shares: how it is read, on the page and in the CSV. */
  unit?: "%" | "points";
  /** Ends of its interval, in the value's own unit. */
  ends?: (i: number) => [number | null, number | null];
  /** What stands beside it, more quietly; in the CSV the figures of `more` stand for it. */
  beside?: (i: number) => string;
  more?: Record<string, (i: number) => number | string | null>;
  number?: boolean;
  /** The address that the cell leads to. */
  link?: (i: number) => string;
  width?: string;
  css?: (i: number) => string;
}

/** The quieter words beside a value. */
export function besides(column: ColumnOf, i: number): string {
  const [low, high] = column.ends?.(i) ?? [null, null];
  const interval = known(low) && known(high) ? range(low, high, column.unit ? 100 : 1, column.unit ? 1 : 2) : "";
  return [interval, column.beside?.(i)].filter(Boolean).join(" ");
}

/** Head and rows of the CSV: a figure a column, intervals and numbers of items too. */
export function csvRows(rows: Int32Array, columns: ColumnOf[]): { head: string[]; body: CsvValue[][] } {
  const read = (column: ColumnOf, value: number | string | null): CsvValue => (column.unit && typeof value === "number" ? 100 * value : value);
  const head = columns.flatMap((c) => {
    const label = c.unit && !c.label.endsWith(c.unit) ? `${c.label}, ${c.unit}` : c.label;
    return [label, ...(c.ends ? [`${label}: low`, `${label}: high`] : []), ...Object.keys(c.more ?? {}).map((k) => `${c.label}: ${k}`)];
  });
  const body = Array.from(rows, (i) =>
    columns.flatMap((c) => [read(c, c.value(i)), ...(c.ends ? c.ends(i).map((v) => read(c, v)) : []), ...Object.values(c.more ?? {}).map((of) => of(i))]),
  );
  return { head, body };
}

/** Where a table's order stands in the address: 'key' for upwards, '-key' for downwards. */
export function sortKey(name: string): string {
  return `sort-${name}`;
}

/** The order that an address asks for, or null: it may say anything. */
export function orderOf(asked: string | null, columns: ColumnOf[]): { key: string; descending: boolean } | null {
  const descending = asked?.startsWith("-") ?? false;
  const key = asked?.slice(Number(descending));
  return columns.some((c) => c.key === key) ? { key: key!, descending } : null;
}

/** Rows in order; what is not known comes last in both directions. Equal values keep their order. */
export function sorted(rows: Int32Array, column: ColumnOf, descending: boolean): Int32Array {
  const n = rows.length;
  const values = Array.from(rows, (i) => column.value(i));
  const sign = descending ? -1 : 1;
  const order = new Int32Array(n);
  for (let k = 0; k < n; k++) order[k] = k;
  if (values.every((v) => v === null || typeof v === "number")) {
    const keys = new Float64Array(n);
    for (let k = 0; k < n; k++) {
      const v = values[k] as number | null;
      keys[k] = v === null || v !== v ? Infinity : sign * v;
    }
    order.sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : a - b));
  } else {
    const texts = values.map((v) => (v === null ? null : String(v)));
    order.sort((a, b) => {
      const [x, y] = [texts[a], texts[b]];
      if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
      return x < y ? -sign : x > y ? sign : a - b;
    });
  }
  return order.map((k) => rows[k]);
}

/** Rows whose text holds every word of the search. */
export function search(rows: Int32Array, lower: string[], words: string): Int32Array {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((i) => wanted.every((w) => lower[i].includes(w)));
}
