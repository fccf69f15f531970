/** What points can be coloured by: values or codes of every item, with a legend. */
import { N_CATEGORIES, paint, paintCodes, type Scale } from "./colors";
import { table } from "./data";
import { loadActivation, loadScores, type Items } from "./site.svelte";
import { quantiles } from "./stats";
import type { Site, Space } from "./types";

export const BY: Record<string, string> = {
  benchmark: "benchmark",
  subject: "subject",
  cluster: "cluster",
  norm: "difficulty in the space",
  error: "observed error",
  actual: "a model: actual",
  predicted: "a model: predicted",
  surprise: "a model: actual less predicted",
  concept: "a concept's activation",
  probe: "a probe axis",
};

export interface Coloring {
  color: Uint8Array;
  /** Codes and their names, those with an own colour first; or a scale. */
  legend:
    | { kind: "codes"; codes: Int32Array; names: string[]; order: number[]; counts: number[] }
    | { kind: "scale"; scale: Scale; values: Float32Array; unit: "share" | "points" | "number"; term: string };
}

/** The colourings that this study has. */
export function offered(site: Site, space: Space): string[] {
  return Object.keys(BY).filter((by) => {
    if (by === "subject") return site.subjects.length > 0;
    if (by === "cluster") return space.clusters.length > 0;
    if (by === "norm") return space.source === "fit";
    if (by === "predicted" || by === "surprise") return site.has.predicted;
    if (by === "concept") return site.has.gaps;
    if (by === "probe") return space.probes.length > 0;
    return true;
  });
}

function codes(values: Int32Array, names: string[]): Coloring {
  const counts = new Array<number>(names.length).fill(0);
  for (const v of values) if (v >= 0) counts[v]++;
  const order = [...names.keys()].filter((k) => counts[k] > 0).sort((a, b) => counts[b] - counts[a]);
  const own = order.slice(0, N_CATEGORIES);
  return { color: paintCodes(values, own), legend: { kind: "codes", codes: values, names, order, counts } };
}

function scaled(dark: boolean, values: Float32Array, unit: "share" | "points" | "number", term: string, given?: [number, number]): Coloring {
  const [low, high] = given ?? quantiles(values, [0.01, 0.99]);
  const kind = unit === "points" ? "diverging" : "sequential";
  const scale: Scale = { kind, low: Number.isFinite(low) ? low : 0, high: high > low ? high : (low || 0) + 1 };
  return { color: paint(values, scale, dark), legend: { kind: "scale", scale, values, unit, term } };
}

export interface Choice {
  by: string;
  model: number | null;
  concept: number | null;
  probe: number | null;
}

/** Null where the choice is not complete yet: no model or concept is named. */
export async function coloring(site: Site, space: Space, items: Items, choice: Choice, dark: boolean): Promise<Coloring | null> {
  switch (choice.by) {
    case "subject":
      return codes(items.subject, site.subjects.map((s) => `${site.benchmarks[s.benchmark].name} / ${s.name}`));
    case "cluster":
      return codes(items.cluster, space.clusters.map((c) => clusterName(c)));
    case "norm":
      return scaled(dark, items.norm, "number", "difficulty");
    case "error":
      return scaled(dark, items.error, "share", "error", [0, 1]);
    case "actual":
    case "predicted":
    case "surprise": {
      if (choice.model === null) return null;
      const held = await loadScores(choice.model);
      if (choice.by === "actual") return scaled(dark, held.observed, "share", "score", [0, 1]);
      if (choice.by === "predicted") return scaled(dark, held.predicted, "share", "predicted", [0, 1]);
      return scaled(dark, held.observed.map((s, i) => s - held.predicted[i]), "points", "surprise", [-1, 1]);
    }
    case "concept": {
      if (choice.concept === null) return null;
      const held = await loadActivation(site, choice.concept);
      const values = new Float32Array(items.n);
      held.item.forEach((i, k) => (values[i] = held.mean[k]));
      const top = quantiles(held.mean, [0.98])[0];
      return scaled(dark, values, "number", "concept", [0, top > 0 ? top : 1]);
    }
    case "probe": {
      const k = choice.probe ?? 0;
      const values = (await table("probes.parquet")).numbers(`p${k}`);
      return scaled(dark, values, "number", "probe");
    }
    default:
      return codes(items.benchmark, site.benchmarks.map((b) => b.name));
  }
}

export function clusterName(cluster: { code: number; name: string; subjects: [string, number][] }): string {
  const about = cluster.name || cluster.subjects.map(([s]) => s).slice(0, 2).join(", ");
  return about ? `${cluster.code}: ${about}` : `cluster ${cluster.code}`;
}
