import { expect, it } from "vitest";

import { RAMP_STEPS, rampBounds, rampStep } from "./ramp";

it("gives the run's best the last step and the baseline the first", () => {
  expect(rampStep(4.06, 4.06)).toBe(RAMP_STEPS - 1);
  expect(rampStep(1, 4.06)).toBe(0);
  expect(rampStep(0.99, 4.06)).toBe(0);
});

it("sets what is slower than the baseline apart", () => {
  expect(rampStep(0.81, 4.06)).toBe("slow");
});

it("is even in the logarithm", () => {
  expect(rampStep(2, 4)).toBe(Math.floor(RAMP_STEPS / 2));
});

it("agrees with the bounds that the legend shows", () => {
  rampBounds(8).forEach((bound, step) => expect(rampStep(bound * 1.001, 8)).toBe(step));
});

it("knows no more than one step while nothing beats the baseline", () => {
  expect(rampStep(1, 1)).toBe(0);
});
