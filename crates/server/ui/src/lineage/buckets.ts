// Totals of a lineage by generation as bars of one picture.

import type { LineageGenerations } from "../api/types";

export interface Bucket {
  /** First and last generation. */
  from: number;
  to: number;
  candidates: number;
  accepted: number;
  rejected: number;
  unjudged: number;
  /** The greatest speedup; null where nothing is accepted. */
  fastest: number | null;
  /** True if the path to the best candidate leads through it. */
  onPath: boolean;
}

/** The buckets of an answer, in order. */
export function buckets(data: LineageGenerations): Bucket[] {
  return data.generations.map((from, at) => {
    const of = (list: readonly number[]) => list[at] ?? 0;
    const [first, last] = [of(data.first), of(data.last)];
    return {
      from,
      to: Math.min(data.last_generation, from + data.width - 1),
      candidates: of(data.candidates),
      accepted: of(data.accepted),
      rejected: Math.max(0, of(data.candidates) - of(data.accepted) - of(data.unjudged)),
      unjudged: of(data.unjudged),
      fastest: data.fastest[at] ?? null,
      onPath: data.path.some((ordinal) => ordinal >= first && ordinal <= last),
    };
  });
}

/** The greatest of some values; 0 of none. */
export function most(values: readonly number[]): number {
  let found = 0;
  for (const value of values) found = Math.max(found, value);
  return found;
}
