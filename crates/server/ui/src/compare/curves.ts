// Two curves of the best so far on common axes, as paths in a box.

import type { ComparedRun, CurvePoint } from "../api/types";

export interface Box {
  width: number;
  height: number;
}

/** What a curve runs along: trials, dollars, or seconds of device time. */
export type Along = "trials" | "dollars" | "device";

export interface Axes {
  along: Along;
  /** The amount at the right end. */
  amount: number;
  speedup: number;
}

/** The place of a point on the axis; 0 where the service did not say what was spent. */
export function amountOf({ trial, spent }: CurvePoint, along: Along): number {
  if (along === "trials") return trial;
  if (!spent) return 0;
  return along === "dollars" ? spent.dollars : spent.device_ms / 1000;
}

/** All that a run has used of what the axis counts. */
export function used({ run }: Pick<ComparedRun, "run">, along: Along): number {
  if (along === "trials") return run.trials;
  return along === "dollars" ? run.spend.dollars : run.spend.device_ms / 1000;
}

/** The best speedup of a curve within an amount; null if nothing was accepted by then. */
export function bestWithin(curve: readonly CurvePoint[], along: Along, amount: number): number | null {
  return curve.findLast((point) => amountOf(point, along) <= amount)?.speedup ?? null;
}

/** The ends of the axes that hold both curves and all that was used; at least one trial and a speedup of 1. */
export function axes(curves: readonly (readonly CurvePoint[])[], along: Along, amount: number): Axes {
  const points = curves.flat();
  return {
    along,
    amount: Math.max(along === "trials" ? 1 : 1e-6, amount, ...points.map((point) => amountOf(point, along))),
    speedup: Math.max(1, ...points.map(({ speedup }) => speedup)) * 1.05,
  };
}

/** Pixels from the left and from the top. */
export function place(at: number, ratio: number, { amount, speedup }: Axes, { width, height }: Box): [number, number] {
  return [(width * at) / amount, height * (1 - ratio / speedup)];
}

/** The curve as steps: the best so far holds until the next point, and from the last one to the `end`. */
export function steps(curve: readonly CurvePoint[], end: number, ends: Axes, box: Box): string {
  const [first] = curve;
  if (!first) return "";
  const at = (point: CurvePoint) => amountOf(point, ends.along);
  const [x, y] = place(at(first), first.speedup, ends, box);
  let path = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const point of curve.slice(1)) {
    const [right, up] = place(at(point), point.speedup, ends, box);
    path += `H${right.toFixed(1)}V${up.toFixed(1)}`;
  }
  const [last] = place(Math.max(end, at(curve.at(-1) ?? first)), 1, ends, box);
  return `${path}H${last.toFixed(1)}`;
}
