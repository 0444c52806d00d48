import { expect, it } from "vitest";

import type { CandidateDetail } from "../api/types";
import { candidate } from "../samples";
import { gain } from "./gain";

function detail(time_us: number | null, over: Partial<CandidateDetail> = {}): CandidateDetail {
  return {
    ...candidate(1, { time_us, operator: { operator: "step", file: "a.cu" } }),
    run: "",
    task: "",
    file: "a.cu",
    source: "",
    idea: { title: "", hypothesis: "", gain: [1.4, 2.6] },
    digest: null,
    evaluation: null,
    confirmation: null,
    diff: [],
    children: [],
    calls: [],
    ...over,
  };
}

it.each([
  [40, "below", 1],
  [20, "within", 2],
  [10, "above", 4],
] as const)("a time of %d µs against 40 µs is %s what was expected", (time, outcome, found) => {
  expect(gain(detail(time), detail(40))).toEqual({ expected: [1.4, 2.6], found, outcome });
});

it("compares nothing without two times of one kind", () => {
  for (const [own, parent] of [
    [detail(null), detail(40)],
    [detail(10), detail(null)],
    [detail(10), null],
    [detail(10), detail(40, { modelled: false })],
  ] as const) {
    expect(gain(own, parent)).toMatchObject({ found: null, outcome: "unknown" });
  }
});

it("does not hold a sweep to what its step promised over another parent", () => {
  const swept = gain(detail(20, { operator: { operator: "sweep" } }), detail(40));
  expect(swept).toEqual({ expected: null, found: 2, outcome: "unknown" });
});
