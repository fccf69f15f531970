/** The JSON files of the explorer; docs/explorer-files.md describes them. */

/** Mean, low and high end of its 95 % interval, number behind it. */
export type Cell = [number, number, number, number] | null;

export interface Model {
  name: string;
  n_answered: number;
  family: string | null;
  params_b: number | null;
  price_in: number | null;
  price_out: number | null;
  organisation: string | null;
  release: string | null;
}

export interface Missing {
  what: string;
  why: string;
  command: string;
}

export interface Site {
  version: number;
  thetascope: string;
  name: string;
  content: string;
  n_items: number;
  n_models: number;
  n_responses: number;
  averaged: boolean;
  answers: string[];
  commands: Record<string, string>;
  benchmarks: { name: string; n_items: number }[];
  subjects: { name: string; benchmark: number }[];
  models: Model[];
  has: {
    space: boolean;
    predicted: boolean;
    texts: boolean;
    gaps: boolean;
    contexts: boolean;
    groups: boolean;
    routing: boolean;
    information: boolean;
  };
  missing: Missing[];
  item_chunk: number;
  concept_starts: number[];
  n_features: number;
  versus: "all" | [number, number][];
}

export interface OverviewRow {
  model: number;
  mean: number | null;
  low: number | null;
  high: number | null;
  n: number;
  benchmarks: Cell[];
}

export interface Overview {
  core: number[];
  focus: string[];
  models: OverviewRow[];
  first: { kind: string; text: string; link: string | null }[];
  findings: { level: string; text: string; n: number; fix: string | null }[];
}

export interface ModelCells {
  benchmarks: Cell[][];
  subjects: Cell[][];
  clusters: Cell[][];
}

export interface Cluster {
  code: number;
  name: string;
  named_by: string;
  n_items: number;
  x: number;
  y: number;
  subjects: [string, number][];
  error: number;
  p: number | null;
  q: number | null;
  above: [string, number, number][];
  below: [string, number, number][];
}

export interface Probe {
  name: string;
  positive: string;
  negative: string;
  auc: [number, number, number] | null;
  models: number[];
}

export interface Pair {
  first: string;
  second: string;
  kappa: [number, number, number];
  differ: [number, number, number];
  rescued: [number, number, number];
  n: number;
  redundant: boolean;
}

export interface Space {
  source: "fit" | "vectors";
  fit: string | null;
  explained: [number, number];
  models: ([number, number] | null)[] | null;
  scale: number | null;
  clusters: Cluster[];
  stability: [number, [number, number, number]][];
  k: number | null;
  probes: Probe[];
  map: { pairs: Pair[]; portfolio: unknown; relatives: ([string, number] | null)[] } | null;
}

export interface GapSummary {
  model: string;
  mean: number | null;
  n_items: number;
  n_tested: number;
  n_untestable: number;
  n_weak: number;
  n_strong: number;
  n_own: number | null;
  detectable: number | null;
  median_score: number | null;
}

export interface Coverage {
  concepts: string;
  dictionary: string | null;
  n_concepts: number;
  n_dead: number;
  n_items: number;
  n_dropped: number;
  threshold: number | null;
  reduced_to: number | null;
  against: { n_items: number; benchmarks: string[] } | null;
  n_missing_from_all: number;
  thresholds: number[];
  benchmarks: { n_items: number; n_missing: number; missing: number[]; rarefied: number | null; skewness: number | null }[];
  n_rarefied: number | null;
  jaccard: (number | null)[][];
  cosine: (number | null)[][];
  focus: string[];
  suites: Record<string, { median: number[]; mean: number[]; n_concepts: number }>;
  models: Record<string, GapSummary[]>;
  robust: Record<string, unknown> | null;
}

export interface Groups {
  by: string;
  groups: { name: string; about: string; named_by: string; size: number; concepts: number[] }[];
  coverage: ({ chi: number | null; n_active: number; n_covered: number } | null)[][];
}
