// The best-so-far curve as values: positions, ranges and ticks. The part Curve.svelte draws them.

import type { CandidateSummary, Evaluation } from "../api/types";
import { promotionFailure } from "../words/verdicts";

/** The horizontal axis: candidates by ordinal, seconds since the run began, or dollars. */
export type Axis = "candidates" | "time" | "cost";

export interface Point {
  ordinal: number;
  /** Position along the horizontal axis, in the axis's unit. */
  x: number;
  speedup: number;
}

export interface Curve {
  /** Every accepted candidate with a speedup, in the order of the axis. */
  accepted: CandidateSummary[];
  /** The candidates that got another verdict. */
  rejected: CandidateSummary[];
  /** The points where the best so far rises, first the baseline's 1×. A candidate that was not confirmed never counts. */
  best: Point[];
  /** Positions along the axis by candidate id. */
  x: Map<string, number>;
  /** The last position. */
  last: number;
}

/**
 * The curve over candidates given by ordinal. `modelled` picks the kind of time: the two kinds
 * never share an axis.
 */
export function curve(nodes: readonly CandidateSummary[], modelled: boolean, axis: Axis = "candidates"): Curve {
  const x = positions(nodes, axis);
  const at = (node: CandidateSummary) => x.get(node.id) ?? 0;
  const accepted = nodes.filter((node) => node.speedup !== null && node.modelled === modelled).sort((one, other) => at(one) - at(other));
  const rejected = nodes.filter((node) => node.verdict !== null && node.verdict !== "accepted");
  const best: Point[] = [];
  for (const node of accepted) {
    const { ordinal, speedup } = node;
    const before = best.at(-1);
    if (speedup === null || promotionFailure(node)) continue;
    if (!before || speedup > before.speedup) best.push({ ordinal, x: at(node), speedup });
  }
  let last = 0;
  for (const position of x.values()) last = Math.max(last, position);
  return { accepted, rejected, best, x, last };
}

/** The speedup of a kernel that takes no longer than the device's floor, by the baseline's evaluation; null if it names no floor. */
export function floorSpeedup({ floors }: Pick<Evaluation, "floors">): number | null {
  // Evaluations of older versions name none.
  const ratios = (floors ?? []).flatMap(({ found_us, us }) => (found_us > 0 && us > 0 ? [Math.log(found_us / us)] : []));
  return ratios.length === 0 ? null : Math.exp(ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length);
}

/** Candidates of a curve in the order of its axis, for a read-out that goes from one to the next. */
export function inOrder({ accepted, rejected, x }: Curve): CandidateSummary[] {
  const at = (node: CandidateSummary) => x.get(node.id) ?? 0;
  return [...accepted, ...rejected].sort((one, other) => at(one) - at(other) || one.ordinal - other.ordinal);
}

/** Positions along an axis. A candidate without a verdict stands at the time when it was proposed. */
function positions(nodes: readonly CandidateSummary[], axis: Axis): Map<string, number> {
  let begin = Number.POSITIVE_INFINITY;
  for (const node of nodes) begin = Math.min(begin, Date.parse(node.created_at));
  let spent = 0;
  return new Map(
    nodes.map((node) => {
      spent += node.cost ?? 0;
      const seconds = (Date.parse(node.judged_at ?? node.created_at) - begin) / 1000;
      return [node.id, axis === "candidates" ? node.ordinal : axis === "time" ? seconds : spent];
    }),
  );
}

/** The least range of speedups that an axis shows, so that noise does not fill it. */
const LEAST_SPAN = 0.02;

/** A floor of at most this many times the best speedup is worth the room on the axis. */
const NEAR_FLOOR = 1.5;

/**
 * The range of the vertical axis: from the baseline, or somewhat below it where accepted
 * candidates are slower, to the best, or to a floor that is near. What lies outside stands at the edge.
 */
export function speedupRange({ accepted, best }: Curve, floor: number | null = null): { low: number; high: number } {
  const fastest = Math.max(1, best.at(-1)?.speedup ?? 1);
  const high = floor !== null && floor > fastest && floor < NEAR_FLOOR * fastest ? floor : fastest;
  const span = Math.max(LEAST_SPAN, high - 1);
  let slowest = 1;
  for (const node of accepted) slowest = Math.min(slowest, node.speedup ?? 1);
  const low = Math.max(slowest, 1 - span / 2);
  return { low: Math.max(0, low - 0.08 * span), high: high + 0.1 * span };
}

/** At most about `wanted` round numbers from `low` to `high`. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / Math.max(1, wanted);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough) ?? rough;
  const made: number[] = [];
  for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + step * 1e-9; tick += 1) made.push(Number((tick * step).toPrecision(12)));
  return made;
}

/** The unit in which an axis of so many seconds is labelled, and its seconds. */
export function timeUnit(seconds: number): { name: string; seconds: number } {
  if (seconds > 7_200) return { name: "hours", seconds: 3_600 };
  if (seconds > 120) return { name: "minutes", seconds: 60 };
  return { name: "seconds", seconds: 1 };
}
