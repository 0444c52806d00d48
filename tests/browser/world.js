// A small world in the API's own values: five runs, one of them with a lineage that holds every
// operator and many verdicts. Everything is fixed, so that a screenshot can be compared.

import { readFileSync } from "node:fs";

const text = (name) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
const SOURCES = { "baseline.cu": text("baseline.cu"), "playbook/01-kept-row.cu": text("kept-row.cu") };
const BASELINE = "baseline.cu";
const KEPT = "playbook/01-kept-row.cu";

export const NOW = Date.parse("2026-11-21T14:05:00Z");
const BEGIN = Date.parse("2026-11-21T13:52:00Z");
const TASK_VERSION = "3f2a9c5d71e8b604a1c7d9e2f5b8036491adce70528f6b3e9d14c07a85b2e6f1";
const WORKER = "0193a2f0-0000-7000-8000-00000000f001";
const BASELINE_US = 41.6;

const id = (kind, number) => `0193a2f0-${kind}-7000-8000-${String(number).padStart(12, "0")}`;
export const runId = (number) => id("0001", number);
export const candidateId = (ordinal) => id("0002", ordinal);
const at = (seconds) => new Date(BEGIN + seconds * 1000).toISOString();

const CONFIGURATION = { WARPS: 4, ITEMS: 8 };

// ordinal, generation, parent, operator, title, verdict or state, speedup, more
const ROWS = [
  [0, 0, null, { operator: "baseline" }, "baseline", "accepted", 1],
  [1, 1, 0, { operator: "step", file: KEPT }, "keep the row in registers", "accepted", 1.72],
  [2, 1, 1, { operator: "sweep" }, "ITEMS=4", "incorrect_output", null],
  [3, 1, 1, { operator: "sweep" }, "ITEMS=16", "accepted", 1.38],
  [4, 1, 1, { operator: "sweep" }, "WARPS=2", "accepted", 1.91],
  [5, 1, 1, { operator: "sweep" }, "ITEMS=4 WARPS=2", "incorrect_output", null],
  [6, 1, 1, { operator: "sweep" }, "WARPS=8", "accepted", 1.12],
  [7, 1, 1, { operator: "sweep" }, "ITEMS=16 WARPS=8", "gate_rejected", null],
  [8, 2, 4, { operator: "step", file: "playbook/02-vector-loads.cu" }, "16-byte loads and stores", "accepted", 2.64],
  [9, 2, 8, { operator: "sweep" }, "ITEMS=16", "accepted", 2.21],
  [10, 2, 8, { operator: "sweep" }, "ITEMS=4", "accepted", 2.87],
  [11, 2, 4, { operator: "submit" }, "rows in pairs", "data_race", null],
  [12, 3, 10, { operator: "step", file: "playbook/03-warp-per-row.cu" }, "one warp a row, no shared memory", "accepted", 4.06],
  [13, 3, 12, { operator: "sweep" }, "ITEMS=8", "accepted", 3.35],
  [14, 3, 12, { operator: "sweep" }, "ITEMS=16", "accepted", 0.81],
  [15, 3, 10, { operator: "submit" }, "online normaliser", "compile_rejected", null],
  [16, 3, 10, { operator: "submit" }, "asynchronous copies", "out_of_bounds", null],
  [17, 4, 12, { operator: "submit" }, "two rows a warp", "evaluating", null],
  [18, 4, 12, { operator: "submit" }, "packed halves", "queued", null],
];
export const BEST = 12;
export const RACY = 11;

const SUMMARIES = {
  incorrect_output:
    "incorrect output: y on case wide (normal inputs): relative L2 error above the limit; y[3,512] is 0, expected 0.00083",
  gate_rejected: "gate rejected: registers is 142, the limit is 128",
  data_race: "data race: line 39: thread 33 reads part[1] while thread 32 writes it",
  compile_rejected: 'does not compile: line 44: identifier "running" is undefined',
  out_of_bounds: "out of bounds: line 57: read 16 bytes at byte 65536 of x, which has 65536 bytes",
};

function configuration(title) {
  const values = { ...CONFIGURATION };
  for (const [, name, value] of title.matchAll(/(\w+)=(\d+)/g)) values[name] = Number(value);
  return values;
}

function summary([ordinal, generation, parent, operator, title, outcome, speedup], modelled) {
  const verdict = ["evaluating", "queued"].includes(outcome) ? null : outcome;
  const state = verdict ? { state: "evaluated" } : outcome === "queued" ? { state: "queued" } : { state: "evaluating", stage: "verify", worker: WORKER };
  return {
    id: candidateId(ordinal),
    ordinal,
    generation,
    island: null,
    parents: parent === null ? [] : [candidateId(parent)],
    operator,
    proposer: operator.operator === "submit" ? "ada" : operator.operator === "sweep" ? "sweep" : "playbook",
    title,
    configuration: ordinal === 0 ? {} : configuration(title),
    state,
    verdict,
    summary: verdict === null ? null : speedup === null ? SUMMARIES[verdict] : `accepted, ${(BASELINE_US / speedup).toFixed(2)} us ${modelled ? "modelled" : "measured"}`,
    line: { data_race: 39, compile_rejected: 44, out_of_bounds: 57 }[verdict] ?? null,
    speedup,
    time_us: speedup === null ? null : BASELINE_US / speedup,
    modelled: speedup !== null && modelled,
    unmet_gates: ordinal === 0 || ordinal === 6 ? ["ctas_per_sm"] : [],
    best: ordinal === BEST,
    promotion: null,
    cost: null,
    created_at: at(8 + ordinal * 38),
    judged_at: verdict ? at(30 + ordinal * 38) : null,
  };
}

const DEVICE = {
  name: "Emulated L4 (Kernelwright)",
  kind: "emulated",
  uuid: "GPU-00000000-0000-0000-0000-000000000001",
  compute_capability: [8, 9],
  driver_version: 13000,
  memory_bytes: 24_152_899_584,
  l2_bytes: 50_331_648,
  limits: {
    sm_count: 58,
    threads_per_block: 1024,
    block: [1024, 1024, 64],
    grid: [2147483647, 65535, 65535],
    shared_per_block: 49152,
    shared_per_block_optin: 101376,
    shared_per_sm: 102400,
    registers_per_block: 65536,
    registers_per_sm: 65536,
    threads_per_sm: 1536,
    blocks_per_sm: 24,
  },
};

const RACE = {
  kind: "shared_race",
  kernel: "softmax",
  line: 39,
  block: [3, 0, 0],
  thread: [33, 0, 0],
  buffer: "part",
  offset: 4,
  other: { block: [3, 0, 0], thread: [32, 0, 0], line: 50 },
  occurrences: 1536,
  message: "thread 33 reads part[1] while thread 32 may still write it; put a __syncthreads() between the two reductions",
};

function verdictOf(node) {
  switch (node.verdict) {
    case "accepted":
      return {
        kind: "accepted",
        timing: timing(node),
        comparison: node.ordinal === 0 ? null : { outcome: node.speedup > 1 ? "faster" : "not_faster", ratio: node.speedup / 1.4, interval: [node.speedup / 1.4, node.speedup / 1.4] },
        launch_bound: false,
      };
    case "data_race":
      return { kind: "data_race", finding: RACE };
    case "gate_rejected":
      return { kind: "gate_rejected", gate: "registers", limit: 128, found: 142 };
    case "compile_rejected":
      return {
        kind: "compile_rejected",
        diagnostics: [{ line: 44, severity: "error", message: 'identifier "running" is undefined' }],
      };
    case "out_of_bounds":
      return {
        kind: "out_of_bounds",
        access: "read",
        reason: "the emulated device caught the access",
        finding: { ...RACE, kind: "out_of_bounds_read", line: 57, buffer: "x", offset: 65536, other: null, occurrences: 4, message: "read 16 bytes at byte 65536 of x, which has 65536 bytes; guard the last vector" },
      };
    default:
      return {
        kind: "incorrect_output",
        case: "wide",
        distribution: "normal",
        tensor: "y",
        reason: "the relative L2 error is above the limit",
        relative_l2: 0.412,
        allowed_l2: 0.00004,
        worst: { index: [3, 512], found: "0", expected: "0.00083" },
      };
  }
}

function timing(node) {
  if (!node.modelled) {
    const median = node.time_us;
    const times = (cache, us, samples) => ["narrow", "wide"].map((name) => ({ case: name, cache, median_us: us, quartiles_us: [us * 0.99, us * 1.02], samples }));
    return { kind: "measured", cases: times("cold", median, 200), unscored: times("warm", median * 0.8, 8) };
  }
  const times = (cache, factor) => [
    ["narrow", 0.55, "latency", 0.64],
    ["wide", 1.82, "dram_bandwidth", 0.81],
  ].map(([name, share, bottleneck, part]) => ({
    case: name,
    cache,
    us: node.time_us * share * factor,
    launches: [{ kernel: "softmax", us: node.time_us * share * factor, launch_us: 2.2, bottleneck, share: part }],
  }));
  return { kind: "modelled", device: "l4", label: "uncalibrated", cases: times("cold", 1), unscored: times("warm", 0.5) };
}

function evaluation(node) {
  if (node.verdict === null) return null;
  const compiled = node.verdict !== "compile_rejected";
  const verdict = verdictOf(node);
  const modelled = verdict.timing?.kind === "modelled" ? verdict.timing.cases : [];
  return {
    verdict,
    evaluator: 1,
    stage: node.ordinal === 0 ? "baseline" : "search",
    task_version: TASK_VERSION,
    candidate_digest: "b1946ac92492d2347c6235b4d2611184f5b8036491adce70528f6b3e9d14c07a",
    image_digest: compiled ? "591785b794601e212b260e25925636fd5b8036491adce70528f6b3e9d14c07a8" : null,
    device: compiled ? DEVICE : null,
    prescreen: null,
    toolchain: "NVRTC 13.5",
    kernels: compiled
      ? [{ kernel: "softmax", registers: node.verdict === "gate_rejected" ? 142 : 40, spill_bytes: 0, stack_bytes: 0, static_shared_bytes: 16, constant_bytes: 372, parameters: [8, 8, 4] }]
      : [],
    gates: compiled
      ? [
          { subject: "ctas_per_sm", phase: null, case: "narrow", min: 4, max: null, found: node.unmet_gates.length > 0 ? 2.2 : 8.83, met: node.unmet_gates.length === 0, enforce: "phase" },
          { subject: "registers", phase: null, case: null, min: null, max: 128, found: node.verdict === "gate_rejected" ? 142 : 40, met: node.verdict !== "gate_rejected", enforce: "reject" },
          { subject: "spill_bytes", phase: "traffic", case: null, min: null, max: 0, found: 0, met: true, enforce: "advise" },
        ]
      : [],
    checks: ["accepted", "incorrect_output"].includes(node.verdict)
      ? ["narrow", "wide", "ragged", "single"].flatMap((name) =>
          ["normal", "integers", "large", "heavy_tail"].map((distribution) => {
            const failed = node.verdict === "incorrect_output" && name === "wide" && distribution === "normal";
            return { case: name, distribution, tensor: "y", relative_l2: failed ? 0.412 : 1.7e-7, worst_ratio: failed ? 918 : 0.11, passed: !failed };
          }),
        )
      : [],
    launches: modelled.map((time) => ({
      case: time.case,
      launches: time.launches.map((modelled) => ({
        kernel: modelled.kernel,
        grid: [time.case === "wide" ? 4096 : 512, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
        modelled,
        modelled_warm: { ...modelled, us: modelled.us / 2 },
        counters: { instructions: 4_718_592, global_read_sectors: 524_288, global_write_sectors: 524_288, shared_bank_conflicts: 0, divergent_branches: 128 },
      })),
    })),
    floors: modelled.map((time) => floor(time, time.case === "wide" ? 4_194_304 : 524_288, null)),
    flags: compiled ? [{ file: "candidate.cu", line: 14, column: 0, message: "the kernel reads a clock or counter (%clock64)", fix: "do without clocks; times are taken outside" }] : [],
    not_run: [],
    sanitizers: null,
    machine_code: compiled ? { kind: "read", tool: "nvdisasm V13.5.37", kernels: [{ kernel: "softmax", instructions: 214, tensor: 0, mix: { FFMA: 64, LDG: 8, MUFU: 16, SHFL: 10, BRA: 6, FADD: 40, FMNMX: 40, IADD3: 20, EXIT: 1, S2R: 9 } }] } : null,
    diagnostics: node.ordinal === 1 ? [{ line: 53, severity: "warning", message: "variable row is used once" }] : [],
    findings: node.verdict === "data_race" ? [RACE] : [],
    stages: [
      { stage: "compile", milliseconds: 312.4 },
      { stage: "run", milliseconds: 1840.2 },
      { stage: "verify", milliseconds: 655.7 },
    ],
  };
}

/** The floor of a case on a device of 300 GB/s and 30 TFLOP/s: bytes that must move, and operations where the task states them. */
export function floor({ case: name, cache, us }, moved, operations) {
  const resources = [
    { bound: "launch", us: 2.2, amount: null },
    { bound: "bytes", us: moved / 300e3, amount: moved },
  ];
  if (operations !== null) resources.push({ bound: "operations", us: operations / 30e6, amount: operations });
  const longest = resources.reduce((most, one) => (one.us > most.us ? one : most));
  return { case: name, cache, us: longest.us, bound: longest.bound, found_us: us, resources };
}

/** A difference by longest common prefix and suffix: enough for a fixture. */
function diff(old, now) {
  const [before, after] = [old.split("\n").slice(0, -1), now.split("\n").slice(0, -1)];
  let head = 0;
  while (before[head] === after[head] && head < before.length) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  return [
    ...before.slice(0, head).map((line, at) => ({ change: "kept", old: at + 1, new: at + 1, text: line })),
    ...before.slice(head, before.length - tail).map((line, at) => ({ change: "removed", old: head + at + 1, new: null, text: line })),
    ...after.slice(head, after.length - tail).map((line, at) => ({ change: "added", old: null, new: head + at + 1, text: line })),
    ...before.slice(before.length - tail).map((line, at) => ({ change: "kept", old: before.length - tail + at + 1, new: after.length - tail + at + 1, text: line })),
  ];
}

export function detail(nodes, node, run) {
  const file = node.ordinal === 0 ? BASELINE : KEPT;
  const parent = nodes.find((other) => other.id === node.parents[0]);
  const source = node.ordinal === RACY ? SOURCES[file].replace("    value = part[0];\n", "    value = part[0];  // nothing waits for the readers\n") : SOURCES[file];
  const before = parent === undefined ? "" : parent.ordinal === 0 ? SOURCES[BASELINE] : SOURCES[KEPT];
  return {
    ...node,
    run,
    task: "row-softmax",
    file,
    source,
    idea:
      node.ordinal === 0
        ? null
        : {
            title: node.title,
            hypothesis:
              "The baseline reads every element three times. A row of at most 32 * WARPS * ITEMS elements fits the block's registers, so it is read once, and the two reductions touch no memory but four floats.",
            gain: [1.4, 2.6],
          },
    digest: "b1946ac92492d2347c6235b4d2611184f5b8036491adce70528f6b3e9d14c07a",
    evaluation: evaluation(node),
    confirmation: node.ordinal === BEST ? confirmation(node) : null,
    diff: parent === undefined ? [] : diff(before, source),
    children: nodes.filter((other) => other.parents.includes(node.id)).map((other) => other.id),
    calls: [],
  };
}

/** The result of the winner's confirmation; one sanitizer and one part of the protocol are missing. */
function confirmation(node) {
  const clean = ["memcheck", "initcheck", "synccheck"].map((tool) => ({ tool, status: "clean" }));
  const missing = { tool: "racecheck", status: "not_run", reason: "it did not end in 120 s" };
  return {
    ...evaluation(node),
    stage: "confirmation",
    sanitizers: { by: "compute-sanitizer 2025.3", tools: [...clean, missing] },
    not_run: [{ part: "many_elements", reason: "memory: 26 GiB are wanted" }],
  };
}

/** A candidate that was timed in turn, with what came of the control after it. */
export function timedInTurn(detail, control) {
  const comparison = settled(0.0304, "faster");
  const measurement = {
    incumbent: detail.digest,
    incumbent_timing: timing({ modelled: false, time_us: 10.6 }),
    settled: comparison,
    looks: 1,
    rounds: [],
    timed: 15,
    discarded: [],
    regressions: [],
    anchor: { ratio: 4.06, interval: [4.02, 4.1], timing: null },
    noise: null,
    split: null,
    watched: { blocks: 30, clock: 30, counted_clock: 0, counted_mhz: null, clock_events: 30, xids: 30, ecc_errors: 30, other_processes: 30, power_capped: 0, celsius: [51, 53] },
    locked: false,
    control,
    cases: [{ case: "narrow", cache: "cold", batch: 24, sets: 24, warm_up: 6, scatter: null }],
  };
  const verdict = { ...detail.evaluation.verdict, timing: timing({ modelled: false, time_us: detail.time_us }) };
  const prescreen = { device: DEVICE, planned: 31, executions: ["narrow", "wide"].map((name) => ({ case: name, distribution: "normal", rescheduled: false })) };
  const device = { ...DEVICE, name: "NVIDIA L4", kind: "nvidia" };
  return { ...detail, modelled: false, evaluation: { ...detail.evaluation, verdict, device, prescreen, measurement } };
}

/** The decision of a comparison, and the bounds that it rests on. */
export function settled(effect, outcome) {
  const interval = { lower: effect - 0.002, upper: effect + 0.002 };
  return { outcome, evidence: { effect, interval, bootstrap: null, signed_rank: 0.5, cycles: null, margin: 0.005, processes: 1, pairs: 30 } };
}

function tally(nodes) {
  const verdicts = {};
  for (const { verdict } of nodes) if (verdict) verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
  return verdicts;
}

function view(number, over) {
  return {
    id: runId(number),
    name: `run ${number}`,
    tags: [],
    task: "row-softmax",
    task_version: TASK_VERSION,
    method: "playbook",
    device: over.best && !over.best.modelled ? "NVIDIA L4" : "Kernelwright emulated L4",
    state: { state: "completed", reason: "exhausted" },
    budget: { trials: 45, wall_seconds: null },
    trials: 45,
    verdicts: {},
    pending: 0,
    best: null,
    promotion: null,
    unpromoted: null,
    last_event: 0,
    models: [],
    evolution: { schedule: { mode: "generational" }, generations: 10, faithful: false, temperature: 1, repairs: 2, sweep_percent: 25, strategy: "surrogate", first_configurations: [], bandit: false, style: "standard", prompt_tokens: null },
    spend: { calls: 0, usage: { input: 0, cached: 0, cache_written: 0, output: 0 }, dollars: 0, unpriced_calls: 0, committed_tokens: 0, committed_dollars: 0, interrupted_calls: 0, interrupted_tokens: 0, interrupted_dollars: 0, device_ms: 41_700, device_dollars: 0.0082 },
    running_ms: 702_000,
    seed: 0,
    created_at: at(0),
    updated_at: at(770),
    ...over,
  };
}

/** Three devices: one that says how often it errs, one that is set aside and never compared anything in turn, and one whose times are modelled. */
function fleet() {
  const none = { made: 0, screened: 0, promoted: 0, undecided: 0, unfinished: 0, screened_at_most: null, promoted_at_most: null };
  const controls = { ...none, made: 300, screened: 3, unfinished: 1, screened_at_most: 0.02561, promoted_at_most: 0.00994 };
  const device = (worker, over) => ({ worker, uuid: `GPU-${worker}`, name: "NVIDIA L4", kind: "nvidia", condition: { state: "well" }, since: at(0), told_at: at(600), controls: none, ...over });
  return { devices: [device("ada", { controls }), device("bob", { condition: { state: "quarantined", reason: "it does not keep what was written" } }), device("cleo", { name: "Kernelwright emulated L4", kind: "emulated" })], poison: [] };
}

/** The workers of the fleet's devices: the first gets no job for a while. */
function crew({ devices }) {
  const worker = ({ worker: name, uuid, name: device }, number) => ({
    id: id("0004", number),
    name,
    device: { ...DEVICE, name: device, uuid },
    toolchain: "NVRTC 13.5",
    alive: true,
    seen_at: at(779),
    evaluating: null,
    draining: false,
    suspended_until: number === 0 ? "2026-11-21T14:20:00Z" : null,
  });
  return devices.map(worker);
}

/** The world as a fresh copy that a test may change. */
export function world() {
  const nodes = ROWS.map((row) => summary(row, true));
  const winner = nodes[BEST];
  const best = { candidate: winner.id, title: winner.title, speedup: winner.speedup, interval: null, time_us: winner.time_us, modelled: true };
  const live = view(5, {
    name: "row-softmax playbook",
    state: { state: "running" },
    budget: { trials: 45, wall_seconds: 3600 },
    trials: 18,
    verdicts: tally(nodes),
    pending: 2,
    best,
  });
  const promotion = {
    id: id("0003", 1),
    candidate: winner.id,
    repository: "/srv/kernels.git",
    branch: "kernelwright/row-softmax/0193a2f0",
    waits: null,
    state: { state: "committed", commit: "9fceb02d0ae598e95dc970b74767f19372d61af8" },
    checks: [
      { at: at(90), device: "NVIDIA L4", device_uuid: "GPU-2f1b", stage: "champion", verdict: "accepted", speedup: 4.61, modelled: false },
      { at: at(420), device: "NVIDIA L4", device_uuid: "GPU-9c04", stage: "confirmation", verdict: "accepted", speedup: 4.72, modelled: false },
    ],
  };
  const runs = [
    live,
    view(4, { name: "attention-f16 playbook", tags: ["l4", "paper-2026"], task: "attention-f16", verdicts: { accepted: 31, incorrect_output: 6, data_race: 2, compile_rejected: 4, timeout: 2 }, best: { ...best, title: "split the keys", speedup: 11.83, time_us: 38.2 }, promotion, updated_at: at(420) }),
    view(3, { name: "row-softmax on the card", method: "sweep", state: { state: "paused", reason: "paused by request" }, trials: 12, verdicts: { accepted: 9, runtime_fault: 2, inconclusive: 1 }, best: { ...best, speedup: 1.31, interval: [1.29, 1.33], time_us: 8.214, modelled: false }, updated_at: at(-4000) }),
    view(2, { name: "layernorm by hand", task: "layernorm-bf16", method: "external", state: { state: "failed", reason: "the baseline was not accepted: fix the task, nothing can be compared with it" }, trials: 0, verdicts: { incorrect_output: 1 }, updated_at: at(-9000) }),
    view(1, { name: "first try", unpromoted: "the run was cancelled", state: { state: "cancelled" }, trials: 3, verdicts: {}, updated_at: at(-200_000) }),
  ];
  const events = [];
  const log = (seconds, what) => events.push({ id: events.length + 1, run: live.id, at: at(seconds), what });
  log(0, { kind: "run_changed", state: { state: "checking_baseline" } });
  for (const node of nodes) {
    const begin = 8 + node.ordinal * 38;
    log(begin, { kind: "proposed", candidate: node.id, ordinal: node.ordinal, title: node.title });
    if (node.state.state === "queued") continue;
    for (const stage of ["compile", "run", "verify"]) log(begin + 4, { kind: "stage", candidate: node.id, stage, worker: WORKER });
    if (node.ordinal === 9) log(begin + 5, { kind: "requeued", candidate: node.id, reason: "the worker vanished" });
    if (node.verdict) log(begin + 22, { kind: "judged", candidate: node.id, ordinal: node.ordinal, title: node.title, verdict: node.verdict, summary: node.summary, speedup: node.speedup, best: [0, 1, 4, 8, 10, 12].includes(node.ordinal) });
    if (node.ordinal === 0) log(31, { kind: "run_changed", state: { state: "running" } });
  }
  live.last_event = events.length;
  const tasks = [{ name: "row-softmax", title: "Softmax over rows", version: TASK_VERSION, cases: ["narrow", "wide"], playbook: [KEPT], created_at: at(-9000) }];
  const devices = fleet();
  return { live: live.id, runs, nodes, events, tasks, models: [], workers: crew(devices), devices };
}

/** Accepts a candidate that is being evaluated, and returns the event that reports it. */
export function accept(world, ordinal, speedup) {
  const time_us = BASELINE_US / speedup;
  for (const node of world.nodes) node.best = node.ordinal === ordinal;
  const node = world.nodes.find((other) => other.ordinal === ordinal);
  Object.assign(node, { state: { state: "evaluated" }, verdict: "accepted", summary: `accepted, ${time_us.toFixed(2)} us modelled`, speedup, time_us, modelled: true, judged_at: at(780) });
  const run = world.runs.find((other) => other.id === world.live);
  Object.assign(run, { verdicts: tally(world.nodes), pending: run.pending - 1, best: { candidate: node.id, title: node.title, speedup, time_us, modelled: true } });
  return { kind: "judged", candidate: node.id, ordinal, title: node.title, verdict: "accepted", summary: node.summary, speedup, best: true };
}

/** A new candidate, applied to the world; the event that tells it. */
export function propose(world, title) {
  const ordinal = world.nodes.length;
  const node = summary([ordinal, 4, BEST, { operator: "submit" }, title, "queued", null], true);
  world.nodes.push(node);
  return { kind: "proposed", candidate: node.id, ordinal, title };
}

/** A candidate that a model is asked for, applied to the world; the event that tells it. */
export function draft(world, model) {
  const ordinal = world.nodes.length;
  const node = summary([ordinal, 4, BEST, { operator: "crossover" }, `crossover by ${model}`, "queued", null], true);
  Object.assign(node, { parents: [candidateId(BEST), candidateId(8)], proposer: model, configuration: {}, state: { state: "drafting", model, trouble: null } });
  world.nodes.push(node);
  return { kind: "proposed", candidate: node.id, ordinal, title: node.title };
}

/** The reply to it, applied to the world; the event that tells it. */
export function answer(world, ordinal) {
  const node = world.nodes.find((other) => other.ordinal === ordinal);
  const { model } = node.state;
  Object.assign(node, { title: "two rows a warp, in halves", state: { state: "queued" } });
  const run = world.runs.find((other) => other.id === world.live);
  Object.assign(run.spend, { calls: 1, usage: { input: 3321, cached: 0, cache_written: 0, output: 1000 }, dollars: 0.0123 });
  return { kind: "replied", candidate: node.id, ordinal, model, tokens: 4321, cost: 0.0123, unusable: null };
}

/** The champion's promotion, applied to the world; the event that tells it. */
export function promote(world) {
  const run = world.runs.find((other) => other.id === world.live);
  run.promotion = { ...world.runs.find((other) => other.promotion).promotion, candidate: candidateId(BEST) };
  return { kind: "promotion", promotion: run.promotion };
}
