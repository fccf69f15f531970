/** Reading the explorer's files: JSON, and Parquet as columns. Each file is fetched once. */
import { decompress } from "fzstd";
import { parquetMetadata, parquetRead } from "hyparquet";

export type Column = ArrayLike<number | null> | string[] | boolean[];

export class Table {
  constructor(
    readonly n: number,
    readonly columns: Map<string, unknown[]>,
  ) {}

  /** A column of numbers; what is not known is NaN. */
  numbers(name: string): Float32Array {
    const held = this.column(name);
    const out = new Float32Array(this.n);
    for (let i = 0; i < this.n; i++) {
      const value = held[i] as number | bigint | null | undefined;
      out[i] = value === null || value === undefined ? NaN : Number(value);
    }
    return out;
  }

  /** A column of codes, -1 where there is none. */
  codes(name: string): Int32Array {
    const held = this.column(name);
    const out = new Int32Array(this.n);
    for (let i = 0; i < this.n; i++) {
      const value = held[i] as number | bigint | null | undefined;
      out[i] = value === null || value === undefined ? -1 : Number(value);
    }
    return out;
  }

  texts(name: string): (string | null)[] {
    return this.column(name) as (string | null)[];
  }

  flags(name: string): boolean[] {
    return this.column(name) as boolean[];
  }

  has(name: string): boolean {
    return this.columns.has(name);
  }

  private column(name: string): unknown[] {
    const found = this.columns.get(name);
    if (!found) throw new Error(`the table has no column ${name}`);
    return found;
  }
}

const ROOT = "data/";
const held = new Map<string, Promise<unknown>>();

function once<T>(path: string, read: () => Promise<T>): Promise<T> {
  let found = held.get(path) as Promise<T> | undefined;
  if (!found) {
    found = read();
    held.set(path, found);
    found.catch(() => held.delete(path)); // a failed read may be tried again
  }
  return found;
}

async function fetched(path: string): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(ROOT + path, { credentials: "same-origin" });
  } catch {
    throw new Error(`${path} could not be read: the server does not answer. Is it still running?`);
  }
  if (!answer.ok) throw new Error(`${path} could not be read (${answer.status})`);
  return answer;
}

export function json<T>(path: string): Promise<T> {
  return once(path, async () => (await (await fetched(path)).json()) as T);
}

export function table(path: string): Promise<Table> {
  return once(path, async () => readTable(await (await fetched(path)).arrayBuffer()));
}

/** Columns of a Parquet file (zstd or uncompressed). */
export async function readTable(buffer: ArrayBuffer): Promise<Table> {
  const metadata = parquetMetadata(buffer);
  const n = Number(metadata.num_rows);
  const columns = new Map<string, unknown[]>();
  for (const element of metadata.schema.slice(1)) columns.set(element.name, []);
  if (n > 0) {
    await parquetRead({
      file: buffer,
      metadata,
      compressors: { ZSTD: (bytes: Uint8Array) => decompress(bytes) },
      onChunk: (chunk: { columnName: string; columnData: ArrayLike<unknown>; rowStart: number }) => {
        const known = columns.get(chunk.columnName)!;
        if (!known.length && chunk.rowStart === 0 && chunk.columnData.length === n) {
          columns.set(chunk.columnName, chunk.columnData as unknown[]);
          return;
        }
        for (let i = 0; i < chunk.columnData.length; i++) {
          known[chunk.rowStart + i] = chunk.columnData[i];
        }
      },
    });
  }
  return new Table(n, columns);
}

/** The file's number as it stands in its name. */
export function nnn(value: number): string {
  return String(value).padStart(3, "0");
}

/** One of the server's computed answers. */
export async function ask<T>(path: string, body: BodyInit, type: string): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(`api/${path}`, {
      method: "POST",
      body,
      headers: { "Content-Type": type },
      credentials: "same-origin",
    });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const found = await answer.json().catch(() => null);
  if (!answer.ok) {
    const error = found?.error;
    throw new Error(error ? `${error.field ? `${error.field}: ` : ""}${error.reason}` : `The server refused (${answer.status}).`);
  }
  return found as T;
}
