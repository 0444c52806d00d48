import { expect, it } from "vitest";

import { Pace } from "./pace";

it("reads at once, then once a second", () => {
  const pace = new Pace();
  expect(pace.wait(50)).toBe(0);
  pace.took(50, 60);
  expect(pace.wait(60)).toBe(990);
  expect(pace.wait(2_000)).toBe(0);
});

it("takes a fifth of the time of a service that is slow", () => {
  const pace = new Pace();
  pace.took(0, 800);
  expect(pace.wait(800)).toBe(3_200);
});
