import { expect, it } from "vitest";

import { candidate, drafting, queued } from "../samples";
import { funnel, lacksKernel, standing } from "./verdicts";

it("counts at each stage who got past it", () => {
  const { judged, steps } = funnel({ accepted: 5, parse_rejected: 1, data_race: 2, incorrect_output: 3 });
  expect(judged).toBe(11);
  expect(Object.fromEntries(steps.map((step) => [step.stage, step.passed]))).toEqual({
    parse: 10,
    compile: 10,
    gates: 10,
    run: 10,
    memory: 8,
    correct: 5,
    time: 5,
  });
});

it("ends with exactly the accepted, whatever the verdicts", () => {
  const { steps } = funnel({ accepted: 2, timeout: 1, inconclusive: 4, unsupported: 1, gate_rejected: 1 });
  expect(steps.at(-1)?.passed).toBe(2);
});

it("names the most frequent obstacle of a stage first", () => {
  const { steps } = funnel({ out_of_bounds: 1, data_race: 3 });
  expect(steps.find((step) => step.stage === "memory")?.stopped.map(({ kind }) => kind)).toEqual(["data_race", "out_of_bounds"]);
});

it("says of a candidate without a verdict what happens to it", () => {
  expect(standing(queued(1))).toEqual({ tone: "pending", label: "queued" });
  const state = { state: "evaluating" as const, stage: "verify", worker: "w" };
  expect(standing(queued(1, { state }))).toEqual({ tone: "pending", label: "verify" });
});

it("names the model that is asked, and says when it does not answer", () => {
  expect(standing(drafting(1))).toEqual({ tone: "pending", label: "asking fast" });
  expect(standing(drafting(1, "overloaded"))).toEqual({ tone: "died", label: "no answer from fast" });
});

it("knows a candidate without a kernel from one that is wrong", () => {
  const without = [drafting(1), candidate(1, { verdict: "parse_rejected" }), queued(1, { state: { state: "abandoned", message: "" } })];
  expect(without.map(lacksKernel)).toEqual([true, true, true]);
  expect([queued(1), candidate(1), candidate(1, { verdict: "data_race" })].map(lacksKernel)).toEqual([false, false, false]);
});

it("never shows an abandoned or duplicate candidate as simply accepted", () => {
  expect(standing(candidate(1, { state: { state: "abandoned", message: "no worker" } })).label).toBe("abandoned");
  expect(standing(candidate(1, { state: { state: "duplicate", of: "x" } })).label).toBe("duplicate, accepted");
});
