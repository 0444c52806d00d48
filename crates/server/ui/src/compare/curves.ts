// Two curves of the best so far on common axes, as paths in a box.

import type { CurvePoint } from "../api/types";

export interface Box {
  width: number;
  height: number;
}

export interface Axes {
  trials: number;
  speedup: number;
}

/** The ends of the axes that hold both curves; at least one trial and a speedup of 1. */
export function axes(curves: readonly (readonly CurvePoint[])[], trials: number): Axes {
  const points = curves.flat();
  return {
    trials: Math.max(1, trials, ...points.map(({ trial }) => trial)),
    speedup: Math.max(1, ...points.map(({ speedup }) => speedup)) * 1.05,
  };
}

export function place(point: { trial: number; speedup: number }, { trials, speedup }: Axes, { width, height }: Box): [number, number] {
  return [(width * point.trial) / trials, height * (1 - point.speedup / speedup)];
}

/** The curve as steps: the best so far holds until the next point, and from the last one to the `end`. */
export function steps(curve: readonly CurvePoint[], end: number, ends: Axes, box: Box): string {
  const [first] = curve;
  if (!first) return "";
  const [x, y] = place(first, ends, box);
  let path = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const point of curve.slice(1)) {
    const [right, up] = place(point, ends, box);
    path += `H${right.toFixed(1)}V${up.toFixed(1)}`;
  }
  const [last] = place({ trial: Math.max(end, curve.at(-1)?.trial ?? 0), speedup: 1 }, ends, box);
  return `${path}H${last.toFixed(1)}`;
}
