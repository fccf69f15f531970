/** What every page needs, loaded once. */
import { json, nnn, table, type Table } from "./data";
import type { Site } from "./types";

/** How many parts say that they have all that they need: `Ready` and `Failed` count themselves. */
export const page = $state({ ready: 0 });

/** Items as typed columns. */
export interface Items {
  n: number;
  benchmark: Int32Array;
  subject: Int32Array;
  source: (string | null)[];
  x: Float32Array;
  y: Float32Array;
  norm: Float32Array;
  cluster: Int32Array;
  error: Float32Array;
  n_answered: Float32Array;
  item_rest: Float32Array;
  q_negative: Float32Array;
  group: Int32Array;
  information: Float32Array;
  n_tokens: Float32Array;
}

let items: Promise<Items> | null = null;

/** A text with the study's place in its commands. */
export function placed(site: Site, text: string): string {
  return text.replaceAll("STUDY", site.commands.study);
}

export function loadSite(): Promise<Site> {
  return json<Site>("site.json");
}

export function loadItems(): Promise<Items> {
  items ??= table("items.parquet").then((t) => ({
    n: t.n,
    benchmark: t.codes("benchmark"),
    subject: t.codes("subject"),
    source: t.texts("source_id"),
    x: t.numbers("x"),
    y: t.numbers("y"),
    norm: t.numbers("norm"),
    cluster: t.codes("cluster"),
    error: t.numbers("error"),
    n_answered: t.numbers("n_answered"),
    item_rest: t.numbers("item_rest"),
    q_negative: t.numbers("q_negative"),
    group: t.codes("group"),
    information: t.numbers("information"),
    n_tokens: t.numbers("n_tokens"),
  }));
  items.catch(() => (items = null));
  return items;
}

export interface Scores {
  observed: Float32Array;
  predicted: Float32Array;
}

const scores = new Map<number, Promise<Scores>>();

export function loadScores(model: number): Promise<Scores> {
  let found = scores.get(model);
  if (!found) {
    found = table(`scores/${nnn(model)}.parquet`).then((t) => ({
      observed: t.numbers("observed"),
      predicted: t.numbers("predicted"),
    }));
    scores.set(model, found);
    found.catch(() => scores.delete(model));
  }
  return found;
}

/** Runs `read` for 0 to n - 1, eight at a time, and tells how far it is. */
export async function each<T>(
  n: number,
  read: (k: number) => Promise<T>,
  progress: (done: number) => void = () => {},
): Promise<T[]> {
  const out = new Array<T>(n);
  let next = 0;
  let done = 0;
  const worker = async (): Promise<void> => {
    while (next < n) {
      const k = next++;
      out[k] = await read(k);
      progress(++done);
    }
  };
  await Promise.all(Array.from({ length: Math.min(8, n) }, worker));
  return out;
}

export interface Concepts {
  n: number;
  label: string[];
  lower: string[];
  source: (string | null)[];
  flags: string[];
  density: Float32Array;
  n_items: Float32Array;
  group: Int32Array;
  /** By benchmark: chi, and items on which the concept is active. */
  chi: Float32Array[];
  active: Float32Array[];
}

let concepts: Promise<Concepts> | null = null;

export function loadConcepts(site: Site): Promise<Concepts> {
  concepts ??= table("concepts.parquet").then((t) => {
    const label = t.texts("label").map((l, c) => l ?? `concept ${c}`);
    return {
      n: t.n,
      label,
      lower: label.map((l) => l.toLowerCase()),
      source: t.texts("label_source"),
      flags: t.texts("flags").map((f) => f ?? ""),
      density: t.numbers("density"),
      n_items: t.numbers("n_items"),
      group: t.codes("group"),
      chi: site.benchmarks.map((_, b) => t.numbers(`chi_${b}`)),
      active: site.benchmarks.map((_, b) => t.numbers(`n_${b}`)),
    };
  });
  concepts.catch(() => (concepts = null));
  return concepts;
}

/** The file of activations and contexts that holds a concept. */
export function conceptFile(site: Site, concept: number): number {
  let low = 0;
  let high = site.concept_starts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (site.concept_starts[middle] <= concept) low = middle;
    else high = middle;
  }
  return low;
}

export interface Activation {
  item: Int32Array;
  mean: Float32Array;
  active: boolean[];
}

export async function loadActivation(site: Site, concept: number): Promise<Activation> {
  const t = await table(`activations/${nnn(conceptFile(site, concept))}.parquet`);
  const all = t.codes("concept");
  let low = 0;
  while (low < t.n && all[low] !== concept) low++;
  let high = low;
  while (high < t.n && all[high] === concept) high++;
  return {
    item: t.codes("item").slice(low, high),
    mean: t.numbers("mean").slice(low, high),
    active: t.flags("active").slice(low, high),
  };
}

/** One item chunk's file, and the rows of one item in it where each item has `per` rows. */
export function chunk(site: Site, kind: string, item: number): Promise<Table> {
  return table(`${kind}/${nnn(Math.floor(item / site.item_chunk))}.parquet`);
}

export function itemName(site: Site, items: Items, item: number): string {
  return `${site.benchmarks[items.benchmark[item]]?.name ?? "?"}:${items.source[item] ?? item}`;
}
