import { describe, expect, it } from "vitest";

import type { EventKind } from "../api/types";
import { candidate, drafting, event, id, queued } from "../samples";
import { merge, patch, split } from "./patch";

function judged(ordinal: number, over: Partial<Extract<EventKind, { kind: "judged" }>> = {}) {
  return event(9, {
    kind: "judged",
    candidate: id(ordinal),
    ordinal,
    title: "",
    verdict: "accepted",
    summary: "accepted, 9.9 us modelled",
    speedup: 3,
    best: true,
    ...over,
  });
}

it("takes a verdict over at once and asks for the rest of it", () => {
  const { nodes, stale, runChanged } = patch([candidate(0, { best: true }), queued(1)], [judged(1)]);
  expect(nodes[1]).toMatchObject({ verdict: "accepted", speedup: 3, best: true, state: { state: "evaluated" } });
  expect(nodes[0]?.best).toBe(false);
  expect(stale).toEqual([{ first: 1, size: 1 }]);
  expect(runChanged).toBe(true);
});

it("leaves what was known before as it is, when the log is replayed", () => {
  const known = [candidate(0), candidate(1, { speedup: 3, best: true })];
  const replay = [
    event(1, { kind: "proposed", candidate: id(1), ordinal: 1, title: "" }),
    event(2, { kind: "stage", candidate: id(1), stage: "compile", worker: "w" }),
    event(3, { kind: "requeued", candidate: id(1), reason: "the worker vanished" }),
    judged(1, { best: false }),
  ];
  expect(patch(known, replay)).toEqual({ nodes: known, stale: [], runChanged: false });
});

it("follows a candidate from the queue to a worker and back", () => {
  const stage = event(1, { kind: "stage", candidate: id(1), stage: "verify", worker: "w" });
  const { nodes, stale } = patch([queued(1)], [stage]);
  expect(nodes[0]?.state).toEqual({ state: "evaluating", stage: "verify", worker: "w" });
  expect(stale).toEqual([]);
  const back = event(2, { kind: "requeued", candidate: id(1), reason: "the worker vanished" });
  expect(patch(nodes, [back]).nodes[0]?.state).toEqual({ state: "queued" });
});

describe("a candidate that a model writes", () => {
  const replied = event(2, { kind: "replied", candidate: id(1), ordinal: 1, model: "fast", tokens: 900, cost: 0.01, unusable: null });
  const unanswered = event(1, { kind: "unanswered", candidate: id(1), model: "fast", reason: "overloaded" });

  it("shows why its model did not answer", () => {
    const { nodes, stale } = patch([drafting(1)], [unanswered]);
    expect(nodes[0]?.state).toEqual({ state: "drafting", model: "fast", trouble: "overloaded" });
    expect(stale).toEqual([]);
  });

  it("is read again when the reply is there, and the run for what it cost", () => {
    expect(patch([drafting(1)], [replied])).toMatchObject({ stale: [{ first: 1, size: 1 }], runChanged: true });
  });

  it("is not taken back by events that were known before", () => {
    const known = [candidate(1)];
    const gone = event(3, { kind: "abandoned", candidate: id(1), reason: "the budget ended first" });
    expect(patch(known, [unanswered, replied, gone])).toMatchObject({ nodes: known, stale: [] });
  });

  it("may be abandoned", () => {
    const gone = event(3, { kind: "abandoned", candidate: id(1), reason: "the budget ended first" });
    expect(patch([drafting(1)], [gone]).nodes[0]?.state).toEqual({ state: "abandoned", message: "the budget ended first" });
  });
});

it("reads unknown candidates in few windows", () => {
  const proposals = [3, 4, 60, 5].map((ordinal) => event(ordinal, { kind: "proposed", candidate: id(ordinal), ordinal, title: "" }));
  expect(patch([], proposals).stale).toEqual([
    { first: 3, size: 3 },
    { first: 60, size: 1 },
  ]);
});

it("does not fetch what a cut-off lineage leaves out", () => {
  const proposal = event(1, { kind: "proposed", candidate: id(5000), ordinal: 5000, title: "" });
  expect(patch([candidate(0)], [proposal, judged(4999)], true).stale).toEqual([]);
});

it("merges newer versions by ordinal", () => {
  const merged = merge([candidate(0), queued(2)], [candidate(2, { title: "newer" }), candidate(1)]);
  expect(merged.map((node) => [node.ordinal, node.title])).toEqual([
    [0, "candidate 0"],
    [1, "candidate 1"],
    [2, "newer"],
  ]);
});

describe("what is read at once", () => {
  it("joins windows that overlap", () => {
    const owed = [{ first: 4, size: 3 }, { first: 5, size: 1 }, { first: 7, size: 2 }];
    expect(split(owed, 100)).toEqual({ now: [{ first: 4, size: 5 }], later: [] });
  });

  it("is at most a portion of the candidates", () => {
    const owed = Array.from({ length: 40 }, (_, at) => ({ first: 100 * at, size: 5 }));
    const { now, later } = split(owed, 100);
    expect([now.length, later.length]).toEqual([20, 20]);
  });
});

it("has the run read again after a direction, which may have changed its limits", () => {
  const what = { kind: "hint" as const, text: "tile", prompts: null };
  expect(patch([], [event(1, { kind: "steered", entry: 1, actor: "ada", what })]).runChanged).toBe(true);
});
