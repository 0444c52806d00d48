// Values that tests begin from; never part of the built dashboard.

import type { CallView, CandidateSummary, Evaluation, EventKind, Finding, ReplyView, RunEvent, RunView, Verdict } from "./api/types";

export function id(ordinal: number): string {
  return `0193a2f0-0002-7000-8000-${String(ordinal).padStart(12, "0")}`;
}

/** An accepted candidate at the baseline's speed, except for what is given. */
export function candidate(ordinal: number, over: Partial<CandidateSummary> = {}): CandidateSummary {
  return {
    id: id(ordinal),
    ordinal,
    generation: 0,
    island: null,
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
    verdict_of: null,
    promotion: null,
    cost: null,
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

/** A candidate that a model is asked to write. */
export function drafting(ordinal: number, trouble: string | null = null): CandidateSummary {
  const operator = { operator: "init" as const };
  return queued(ordinal, { state: { state: "drafting", model: "fast", trouble }, operator, proposer: "fast" });
}

/** A run without models that has just begun. */
export function runView(over: Partial<RunView> = {}): RunView {
  return {
    id: "0193a2f0-0001-7000-8000-000000000001",
    last_event: 0,
    name: "row-softmax",
    tags: [],
    task: "row-softmax",
    task_version: "0".repeat(64),
    device: "Kernelwright emulated L4",
    method: "insight",
    state: { state: "running" },
    budget: { trials: 45, tokens: null, dollars: null, wall_seconds: null, device_seconds: null, device_dollars: null, floor_percent: null, gain_per_dollar: null, trials_without_gain: null },
    trials: 0,
    models: [],
    evolution: { schedule: { mode: "generational" }, generations: 10, faithful: false, temperature: 1, repairs: 0, sweep_percent: 25, strategy: "surrogate", first_configurations: [], bandit: false, style: "standard", prompt_tokens: null },
    spend: {
      calls: 0,
      usage: { input: 0, cached: 0, cache_written: 0, output: 0 },
      dollars: 0,
      unpriced_calls: 0,
      committed_tokens: 0,
      committed_dollars: 0,
      interrupted_calls: 0,
      interrupted_tokens: 0,
      interrupted_dollars: 0,
      device_ms: 0,
      device_dollars: 0,
    },
    running_ms: 0,
    verdicts: {},
    pending: 0,
    best: null,
    promotion: null,
    forked_from: null,
    unpromoted: null,
    seed: 0,
    created_at: "2026-11-21T14:00:00Z",
    updated_at: "2026-11-21T14:00:00Z",
    ...over,
  };
}

export function reply(over: Partial<ReplyView> = {}): ReplyView {
  return {
    text: "```cuda\n```",
    complete: true,
    unusable: null,
    notes: [],
    usage: { input: 10, cached: 0, cache_written: 0, output: 5 },
    usage_estimated: false,
    cost: 0.01,
    answered_by: "fast-2026-11",
    first_token_ms: 320,
    total_ms: 4200,
    attempts: 1,
    at: "2026-11-21T14:00:10Z",
    ...over,
  };
}

export function call(over: Partial<CallView> = {}): CallView {
  return {
    turn: 0,
    model: "fast",
    template: "insight.j2",
    template_digest: "0".repeat(64),
    prompt: { system: "the task", messages: [{ speaker: "user", text: "write a kernel" }] },
    dropped: [],
    seen: { best: null, parents: [], insights: [], duplicates: [] },
    reply: reply(),
    failures: 0,
    interrupted: 0,
    trouble: null,
    created_at: "2026-11-21T14:00:00Z",
    ...over,
  };
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
    prescreen: null,
    drawn_shapes: null,
    preconditions: null,
    toolchain: null,
    kernels: [],
    gates: [],
    checks: [],
    launches: [],
    floors: [],
    measurement: null,
    flags: [],
    machine_code: null,
    hottest_lines: null,
    explanation: null,
    found_on: null,
    not_run: [],
    sanitizers: null,
    evidence: null,
    diagnostics: [],
    findings: [],
    stages: [],
    ...over,
  };
}
