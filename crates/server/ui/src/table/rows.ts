// The rows of the table of candidates: which are shown, in which order, with which columns.

import type { CandidateSummary, VerdictKind } from "../api/types";
import { promotionFailure, standing } from "../words/verdicts";

export const COLUMNS = ["ordinal", "candidate", "speedup", "time", "verdict", "operator", "model", "generation", "cost", "judged"] as const;
export type Column = (typeof COLUMNS)[number];

export const COLUMN_NAMES: Record<Column, string> = {
  ordinal: "#",
  candidate: "Candidate",
  speedup: "Speedup",
  time: "Time",
  verdict: "Verdict",
  operator: "Operator",
  model: "Model",
  generation: "Generation",
  cost: "Cost",
  judged: "Judged",
};

/** Columns that cannot be left out: the link to the candidate. */
export const FIXED: readonly Column[] = ["candidate"];
export const DEFAULT_COLUMNS: readonly Column[] = ["ordinal", "candidate", "speedup", "time", "verdict"];
export const NUMERIC: ReadonlySet<Column> = new Set(["ordinal", "speedup", "time", "generation", "cost"]);
/** Columns whose largest values come first when they are sorted by first. */
const DESCENDING: ReadonlySet<Column> = new Set(["speedup", "cost", "judged", "generation"]);

export interface Sort {
  by: Column;
  descending: boolean;
}

export interface Filter {
  /** A verdict, or `waiting` for candidates without one; empty for all. */
  verdict: VerdictKind | "waiting" | "";
  operator: string;
  model: string;
  text: string;
}

export const NO_FILTER: Filter = { verdict: "", operator: "", model: "", text: "" };
export const FASTEST_FIRST: Sort = { by: "speedup", descending: true };

/** The order after a click on a column: the other direction, or that in which the column is usually read. */
export function sortedBy(before: Sort, by: Column): Sort {
  return before.by === by ? { by, descending: !before.descending } : { by, descending: DESCENDING.has(by) };
}

export function isFiltered(filter: Filter): boolean {
  return Object.values(filter).some((value) => value !== "");
}

/** The candidates that match a filter, in an order. Those without the value come last, equal ones by ordinal. */
export function rows(nodes: readonly CandidateSummary[], filter: Filter, { by, descending }: Sort): CandidateSummary[] {
  const text = filter.text.trim().toLowerCase();
  const shown = nodes.filter(
    (node) =>
      (filter.verdict === "" || (filter.verdict === "waiting" ? node.verdict === null : node.verdict === filter.verdict)) &&
      (filter.operator === "" || node.operator.operator === filter.operator) &&
      (filter.model === "" || node.proposer === filter.model) &&
      (text === "" || words(node).some((word) => word.toLowerCase().includes(text))),
  );
  const sign = descending ? -1 : 1;
  return shown.sort((one, other) => compare(key(one, by), key(other, by), sign) || one.ordinal - other.ordinal);
}

function words(node: CandidateSummary): string[] {
  const configuration = Object.entries(node.configuration).map(([name, value]) => `${name}=${value}`);
  return [`#${node.ordinal}`, node.title, node.summary ?? "", node.id, ...configuration];
}

type Key = number | string | null;

function compare(one: Key, other: Key, sign: number): number {
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1;
  return one === other ? 0 : one < other ? -sign : sign;
}

function key(node: CandidateSummary, by: Column): Key {
  switch (by) {
    case "ordinal":
      return node.ordinal;
    case "candidate":
      return node.title;
    case "speedup":
      // Candidates that were not confirmed stand below all that may still win.
      return node.speedup !== null && promotionFailure(node) ? 0 : node.speedup;
    case "time":
      return node.time_us;
    case "verdict":
      return standing(node).label;
    case "operator":
      return node.operator.operator;
    case "model":
      return node.proposer;
    case "generation":
      return node.generation;
    case "cost":
      return node.cost;
    case "judged":
      return node.judged_at;
  }
}

/** The rows that a frame shows, with some beyond its edges. */
export function visible(scrolled: number, height: number, row: number, count: number): { first: number; last: number } {
  const BEYOND = 6;
  const first = Math.max(0, Math.min(count - 1, Math.floor(scrolled / row)) - BEYOND);
  return { first, last: Math.min(count, Math.ceil((scrolled + height) / row) + BEYOND) };
}

/** The parameters of an address that keep filter and order; null for those that are as usual. */
export function toQuery(filter: Filter, sort: Sort): Record<string, string | null> {
  const isUsual = sort.by === FASTEST_FIRST.by && sort.descending === FASTEST_FIRST.descending;
  const set = Object.entries(filter).map(([name, value]): [string, string | null] => [name, value || null]);
  return { ...Object.fromEntries(set), sort: isUsual ? null : `${sort.descending ? "-" : ""}${sort.by}` };
}

export function fromQuery(query: URLSearchParams): { filter: Filter; sort: Sort } {
  const of = (name: string) => query.get(name) ?? "";
  const filter: Filter = { verdict: of("verdict") as Filter["verdict"], operator: of("operator"), model: of("model"), text: of("text") };
  const by = COLUMNS.find((column) => column === of("sort").replace("-", ""));
  return { filter, sort: by ? { by, descending: of("sort").startsWith("-") } : FASTEST_FIRST };
}
