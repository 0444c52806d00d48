// Values that tests begin from; never part of the built dashboard.

import type { CandidateSummary, Evaluation, EventKind, Finding, RunEvent, Verdict } from "./api/types";

export function id(ordinal: number): string {
  return `0193a2f0-0002-7000-8000-${String(ordinal).padStart(12, "0")}`;
}

/** An accepted candidate at the baseline's speed, except for what is given. */
export function candidate(ordinal: number, over: Partial<CandidateSummary> = {}): CandidateSummary {
  return {
    id: id(ordinal),
    ordinal,
    generation: 0,
    parents: [],
    operator: { operator: ordinal === 0 ? "baseline" : "sweep" },
    proposer: "sweep",
    title: `candidate ${ordinal}`,
    configuration: {},
    state: { state: "evaluated" },
    verdict: "accepted",
    summary: null,
    line: null,
    speedup: 1,
    time_us: 40,
    modelled: true,
    unmet_gates: [],
    best: false,
    created_at: "2026-11-21T14:00:00Z",
    judged_at: "2026-11-21T14:00:20Z",
    ...over,
  };
}

/** A candidate that waits for a worker. */
export function queued(ordinal: number, over: Partial<CandidateSummary> = {}): CandidateSummary {
  const none = { verdict: null, speedup: null, time_us: null, modelled: false, judged_at: null };
  return candidate(ordinal, { state: { state: "queued" }, ...none, ...over });
}

export function event(number: number, what: EventKind): RunEvent {
  return { id: number, run: "0193a2f0-0001-7000-8000-000000000001", at: "2026-11-21T14:01:00Z", what };
}

export function finding(over: Partial<Finding> = {}): Finding {
  return {
    kind: "shared_race",
    kernel: "softmax",
    line: 12,
    block: [3, 0, 0],
    thread: [33, 0, 0],
    buffer: "part",
    offset: 4,
    other: { block: [3, 0, 0], thread: [32, 0, 0], line: 20 },
    occurrences: 1536,
    message: "thread 33 reads what thread 32 writes",
    ...over,
  };
}

export function evaluation(verdict: Verdict, over: Partial<Evaluation> = {}): Evaluation {
  return {
    verdict,
    evaluator: 1,
    stage: "search",
    task_version: "0".repeat(64),
    candidate_digest: null,
    image_digest: null,
    device: null,
    toolchain: null,
    kernels: [],
    gates: [],
    checks: [],
    launches: [],
    diagnostics: [],
    findings: [],
    stages: [],
    ...over,
  };
}
