import { expect, it } from "vitest";

import { sparkline } from "./spark";

it("rises from the first speedup to the best, in steps", () => {
  expect(sparkline([1, 1, 2, 3, 3])).toBe("M0.0 15.0H18.0V15.0H36.0V8.0H54.0V1.0H72.0V1.0H72.0");
});

it("begins where the first candidate was accepted", () => {
  expect(sparkline([null, 1, 2])).toBe("M36.0 15.0H72.0V1.0H72.0");
});

it("is empty where nothing became faster", () => {
  expect(sparkline([])).toBe("");
  expect(sparkline([null, null])).toBe("");
  expect(sparkline([1, 1, 1])).toBe("");
});
