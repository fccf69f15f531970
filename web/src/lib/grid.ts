/** Sorting and searching rows of a large table. */

export interface ColumnOf {
  key: string;
  label: string;
  /** A term of the glossary. */
  term?: string;
  /** Of row i: what is sorted by, and what is shown where `show` is absent. */
  value: (i: number) => number | string | null;
  show?: (i: number) => string;
  /** A second, quieter line or the interval beside the value. */
  beside?: (i: number) => string;
  number?: boolean;
  /** The address that the cell leads to. */
  link?: (i: number) => string;
  width?: string;
  css?: (i: number) => string;
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
