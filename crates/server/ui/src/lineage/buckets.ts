// Totals of a lineage by generation as bars of one picture.

import type { LineageGenerations } from "../api/types";
import { rampStep } from "./ramp";

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

/** The part of a bar's width that is filled; the rest sets it apart from the next one. */
const FILLED = 0.86;
/** Height of a mark of the path to the best, and its distance from the bars. */
const MARK = { height: 4, gap: 2 };

/**
 * The outlines of the bars by the class that colours them, for a picture in which a bar is one unit wide and the tallest one
 * `height` high. A few outlines take the place of an element for each part of each bar.
 */
export function outlines(bars: readonly Bucket[], tallest: number, top: number, height: number): [look: string, outline: string][] {
  const made = new Map<string, string>();
  const scaled = (candidates: number) => Math.round((100 * height * candidates) / tallest) / 100;
  bars.forEach((bar, at) => {
    let upper = height;
    const add = (look: string, y: number, width: number, high: number) => {
      if (high > 0) made.set(look, `${made.get(look) ?? ""}M${at} ${y}h${width}v${high}h-${width}z`);
    };
    const pile = (look: string, candidates: number) => {
      const high = scaled(candidates);
      upper = Math.round(100 * (upper - high)) / 100;
      add(look, upper, FILLED, high);
    };
    pile(`ramp-${bar.fastest === null ? "none" : rampStep(bar.fastest, top)}`, bar.accepted);
    pile("rejected", bar.rejected);
    pile("unjudged", bar.unjudged);
    if (bar.onPath) add("path", height + MARK.gap, 1, MARK.height);
  });
  return [...made];
}
