// The best-so-far curve as values: what to draw, not how.

import type { CandidateSummary } from "../api/types";

export interface Point {
  ordinal: number;
  speedup: number;
}

export interface Curve {
  /** Every accepted candidate with a speedup. */
  accepted: CandidateSummary[];
  /** Ordinals of the candidates that got another verdict. */
  rejected: CandidateSummary[];
  /** Where the best so far rises, first the baseline's 1×. */
  best: Point[];
  last: number;
}

/**
 * The curve over candidates given by ordinal. `modelled` picks the kind of time: the two kinds
 * never share an axis.
 */
export function curve(nodes: readonly CandidateSummary[], modelled: boolean): Curve {
  const accepted = nodes.filter((node) => node.speedup !== null && node.modelled === modelled);
  const rejected = nodes.filter((node) => node.verdict !== null && node.verdict !== "accepted");
  const best: Point[] = [];
  for (const { ordinal, speedup } of accepted) {
    const before = best.at(-1);
    if (speedup !== null && (!before || speedup > before.speedup)) best.push({ ordinal, speedup });
  }
  return { accepted, rejected, best, last: nodes.at(-1)?.ordinal ?? 0 };
}

/** At most about `wanted` round numbers that cover 0 to `top`. */
export function ticks(top: number, wanted: number): number[] {
  const rough = top / Math.max(1, wanted);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((candidate) => candidate >= rough) ?? rough;
  const made: number[] = [];
  for (let tick = 0; tick <= top + step * 1e-9; tick += step) made.push(Number(tick.toPrecision(12)));
  return made;
}
