// Totals of the model calls for a candidate, and the candidates that a prompt showed, as links.

import type { CallView, Seen, Usage } from "../api/types";

/** Tokens that were read, from the cache or not. */
export function read({ input, cached, cache_written }: Usage): number {
  return input + cached + cache_written;
}

export interface Totals {
  replies: number;
  read: number;
  written: number;
  dollars: number;
  /** Replies whose price nobody knows: they are not in `dollars`. */
  unpriced: number;
  /** True if a server did not report all tokens. */
  estimated: boolean;
}

/** The total usage of the answered calls. */
export function totals(calls: readonly CallView[]): Totals {
  const sum: Totals = { replies: 0, read: 0, written: 0, dollars: 0, unpriced: 0, estimated: false };
  for (const { reply } of calls) {
    if (!reply) continue;
    sum.replies += 1;
    sum.read += read(reply.usage);
    sum.written += reply.usage.output;
    sum.dollars += reply.cost ?? 0;
    sum.unpriced += reply.cost === null ? 1 : 0;
    sum.estimated ||= reply.usage_estimated;
  }
  return sum;
}

export interface Shown {
  name: string;
  candidates: string[];
}

/** The candidates that a prompt showed, by the part they played; parts without any left out. */
export function shown({ best, parents, insights, duplicates }: Seen): Shown[] {
  const groups: [string, string[]][] = [
    ["best", best === null ? [] : [best]],
    ["parents", parents],
    ["insights of", insights],
    ["repetitions", duplicates],
  ];
  return groups
    .map(([name, candidates]) => ({ name, candidates: [...new Set(candidates)] }))
    .filter(({ candidates }) => candidates.length > 0)
    .map((group) => (group.name === "parents" && group.candidates.length === 1 ? { ...group, name: "parent" } : group));
}
