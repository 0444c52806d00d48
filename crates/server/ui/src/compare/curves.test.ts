import { expect, it } from "vitest";

import type { CurvePoint } from "../api/types";
import { axes, steps } from "./curves";

const point = (trial: number, speedup: number): CurvePoint => ({ trial, speedup, ordinal: trial, candidate: String(trial) });

it("has axes that hold both curves and all trials", () => {
  expect(axes([[point(0, 1), point(8, 2)], [point(0, 1)]], 10)).toEqual({ trials: 10, speedup: 2.1 });
  expect(axes([[], []], 0)).toEqual({ trials: 1, speedup: 1.05 });
});

it("holds the best so far until the next one", () => {
  const curve = [point(0, 1), point(5, 2)];
  expect(steps(curve, 10, { trials: 10, speedup: 2 }, { width: 100, height: 10 })).toBe("M0.0 5.0H50.0V0.0H100.0");
  expect(steps([], 10, { trials: 10, speedup: 2 }, { width: 100, height: 10 })).toBe("");
});
