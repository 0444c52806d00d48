import { expect, it } from "vitest";

import type { CurvePoint } from "../api/types";
import { axes, bestWithin, steps } from "./curves";

const point = (trial: number, speedup: number, spent: CurvePoint["spent"] = null): CurvePoint => ({ trial, speedup, ordinal: trial, candidate: String(trial), spent });

it("has axes that hold both curves and all trials", () => {
  expect(axes([[point(0, 1), point(8, 2)], [point(0, 1)]], "trials", 10)).toEqual({ along: "trials", amount: 10, speedup: 2.1 });
  expect(axes([[], []], "trials", 0)).toEqual({ along: "trials", amount: 1, speedup: 1.05 });
});

it("holds the best so far until the next one", () => {
  const curve = [point(0, 1), point(5, 2)];
  const ends = { along: "trials", amount: 10, speedup: 2 } as const;
  expect(steps(curve, 10, ends, { width: 100, height: 10 })).toBe("M0.0 5.0H50.0V0.0H100.0");
  expect(steps([], 10, ends, { width: 100, height: 10 })).toBe("");
});

it("runs along dollars and seconds of device time", () => {
  const curve = [point(0, 1, { dollars: 0, device_ms: 2_000 }), point(5, 2, { dollars: 0.5, device_ms: 6_000 })];
  const box = { width: 100, height: 10 };
  expect(steps(curve, 1, { along: "dollars", amount: 1, speedup: 2 }, box)).toBe("M0.0 5.0H50.0V0.0H100.0");
  expect(steps(curve, 8, { along: "device", amount: 8, speedup: 2 }, box)).toBe("M25.0 5.0H75.0V0.0H100.0");
  expect(bestWithin(curve, "dollars", 0.4)).toBe(1);
  expect(bestWithin(curve, "device", 6)).toBe(2);
  expect(bestWithin(curve, "device", 1)).toBeNull();
});
