// The stand-in's answers for the views beside runs: tasks, leaderboards, fleet, failures, comparisons
// and estimates. Each is made from the world, so that a test that changes the world changes them.

import { detail } from "./world.js";

const TASK = "row-softmax";
const EVALUATOR = 11;

/** The answer to a request for one of these views; undefined for every other request. */
export function answerView(world, request, url) {
  const path = url.pathname.replace("/api/v1", "");
  const [, collection, name, part] = path.split("/");
  const ok = (body) => ({ status: 200, body });
  if (path === "/leaderboards") return ok(world.views?.leaderboards ?? { boards: boards(world), next: null });
  if (path === "/fleet/hours") return ok(world.workers.length === 0 ? [] : deviceMonths());
  if (path === "/fleet") return ok(world.views?.fleet ?? fleet(world));
  if (path === "/failures") return ok(page(clusters(world, url.searchParams.get("run")), url));
  if (path === "/failures/candidates") return ok(members(world, url));
  if (path === "/promotions") return ok(promotionPage(world, url));
  if (path === "/runs/estimate") return ok(world.views?.estimate ?? estimate(0));
  if (path === "/compare/candidates") return compareCandidates(world, url);
  if (path === "/compare/runs") return compareRuns(world, url);
  if (collection === "workers" && part === "drain") return drain(world, name);
  if (collection === "tasks" && part !== undefined) {
    const task = world.tasks.find((other) => other.name === decodeURIComponent(name));
    if (!task) return { status: 404, body: { type: "/problems/unknown-task", title: "Unknown task", status: 404, detail: `no task "${name}" is stored here` } };
    if (part === "definition") return ok(definition(world, task));
    if (part === "versions") return ok(versions(task));
    if (part === "admissions") return ok(world.views?.admissions ?? admissions(task));
    if (part === "runs") return ok({ runs: world.runs.filter((run) => run.task === task.name), next: null });
    if (part === "leaderboards") return ok(boards(world).filter((board) => board.task === task.name));
  }
  return undefined;
}

/** The definition of a task by which its candidates are judged. */
export function definition(world, task) {
  return {
    ...task,
    dims: [
      { name: "C", least: 512, most: 4096, multiple: 8 },
      { name: "R", least: 1, most: 8192, multiple: 1 },
    ],
    tensors: [
      { name: "x", dtype: "f32", shape: ["R", "C"], role: "in", align: 16, values: "normal" },
      { name: "y", dtype: "f32", shape: ["R", "C"], role: "out", align: 16, values: "normal" },
    ],
    scalars: [{ name: "scale", dtype: "f32", value: "1 / C" }],
    shapes: [
      { name: "narrow", dims: { C: 512, R: 4096 }, uses: ["check", "score"] },
      { name: "wide", dims: { C: 4096, R: 512 }, uses: ["check", "score"] },
    ],
    tolerance: { class: "f32", relative_l2: 4e-5, output_roundoff: 5.96e-8, accumulation_roundoff: 5.96e-8, element_factor: 4 },
    order_dependent: [],
    policy: { module_state: "deny", clock_reads: "flag", tensor_operations: "deny", cache_hints: "flag" },
    gates: [
      { subject: "registers", phase: null, min: null, max: 128, enforce: "reject" },
      { subject: "ctas_per_sm", phase: "traffic", min: 4, max: null, enforce: "phase" },
    ],
    phases: [{ name: "traffic", targets: { good: 2, excellent: 4 } }],
    steps: [{ file: "playbook/01-kept-row.cu", phase: "traffic", title: "keep the row in registers", hypothesis: "each element is read once instead of three times", gain: [1.4, 1.9], sweep: ["WARPS"] }],
    scored_cache: "cold",
    target_speedup: 4,
    reference: 'extern "C" __global__ void softmax(const float *x, double *y, int R, int C) {}\n',
    context: "Rows are independent.\n",
    insights: "",
    files: [{ path: "task.toml", bytes: 812 }, { path: "playbook/01-kept-row.cu", bytes: 2048 }],
  };
}

/** Two uploads with one right answer, and an older one with another. */
export function versions(task) {
  const upload = (version, content, day, runs, open_runs) => ({ version, content, stored_at: `2026-11-${day}T09:00:00Z`, runs, open_runs, last_run_at: null });
  return [upload(task.version, "a".repeat(64), 20, 4, 1), upload(task.version, "b".repeat(64), 18, 1, 0), upload("c".repeat(64), "d".repeat(64), "02", 0, 0)];
}

/** The newest upload is admitted on one device and refused on another. */
export function admissions(task) {
  const point = (rule, subject, found, limit, holds, says) => ({ rule, subject, found, limit, holds, says });
  const decided = (device, points) => ({
    content: "a".repeat(64),
    device,
    toolchain: "NVRTC 13.1",
    decided_at: "2026-11-20T09:05:00Z",
    admitted: points.every(({ holds }) => holds),
    admission: { task: task.name, version: task.version, cases: ["narrow", "wide"], points, floors: [{ case: "wide", cache: "cold", bytes: 16777216, baseline_us: 84.2, modelled: true }], advice: ["no case has fewer than 512 columns"] },
  });
  const holds = point("not_near_zero", "y", 0.8, 0.01, true, "the largest magnitude of y is 8.000e-1");
  const broken = point("impostor_rejected", "all zeros", null, null, false, "accepted, although it is right by no merit");
  return [decided("Kernelwright emulated L4", [holds]), decided("NVIDIA L4", [holds, broken])];
}

/** Two months of two workers, one without a price. */
export function deviceMonths() {
  const row = (month, worker, attached_hours, evaluating_hours, dollars) => ({ month, worker, uuid: `GPU-${worker}`, device: "NVIDIA L4", attached_hours, evaluating_hours, dollars });
  return [row("2026-11", "ada", 120, 90, 85.2), row("2026-11", "bob", 8, 1, 0), row("2026-10", "ada", 700, 610, 497)];
}

/** The best of each run that has one, by task and kind of time. */
export function boards(world) {
  const made = new Map();
  for (const run of world.runs) {
    if (!run.best) continue;
    const device = run.best.modelled ? "Kernelwright emulated L4" : "NVIDIA L4";
    const key = `${run.task} ${device}`;
    const board = made.get(key) ?? { task: run.task, version: run.task_version, device, modelled: run.best.modelled, entries: [] };
    const { candidate, title, speedup, time_us } = run.best;
    board.entries.push({ run: run.id, run_name: run.name, method: run.method, candidate, ordinal: 12, title, proposer: "playbook", time_us, speedup, judged_at: run.updated_at });
    made.set(key, board);
  }
  for (const board of made.values()) board.entries.sort((one, other) => one.time_us - other.time_us);
  return [...made.values()].sort((one, other) => one.task.localeCompare(other.task));
}

/** The workers of the world, each in another state. */
export function fleet(world) {
  const states = ["suspended", "unwell", "busy", "idle", "draining", "lost"];
  const node = world.nodes.find(({ state }) => state.state === "evaluating");
  const workers = world.workers.map((worker, at) => ({
    ...worker,
    draining: worker.draining,
    state: worker.draining ? "draining" : states[at % states.length],
    evaluator: at === 1 ? EVALUATOR - 1 : EVALUATOR,
    registered_at: worker.seen_at,
    job: at === 2 && node ? { run: world.live, run_name: "row-softmax playbook", candidate: node.id, ordinal: node.ordinal, title: node.title, progress: "verify", deadline: worker.seen_at } : null,
    evaluations_last_hour: 40 * at,
    faults_in_a_row: at === 0 ? 3 : 0,
    condition: at === 1 ? { state: "quarantined", reason: "it does not keep what was written" } : { state: "well" },
    checked_at: worker.seen_at,
    watched: at === 0 ? { blocks: 40, clock: 40, counted_clock: 40, counted_mhz: [1650, 1710], clock_events: 40, xids: 40, ecc_errors: 40, other_processes: 40, power_capped: 3, celsius: [58, 61] } : null,
    watched_at: at === 0 ? worker.seen_at : null,
    dollars_per_hour: at === 0 ? 0.71 : null,
  }));
  return { evaluator: EVALUATOR, queued: 2, oldest_queued_at: workers[0]?.seen_at ?? null, workers };
}

function drain(world, id) {
  const worker = world.workers.find((other) => other.id === id);
  if (!worker) return { status: 404, body: { type: "/problems/unknown-worker", title: "Unknown worker", status: 404, detail: `no worker "${id}" is stored here` } };
  worker.draining = true;
  return { status: 204 };
}

const CAUSES = {
  incorrect_output: "the relative L2 error is above the limit",
  gate_rejected: "registers",
  data_race: "race in shared memory",
  compile_rejected: "identifier … is undefined",
  out_of_bounds: "read",
};

function member(world, node) {
  return { candidate: node.id, ordinal: node.ordinal, title: node.title, run: world.live, run_name: "row-softmax playbook", summary: node.summary, line: node.line, at: node.judged_at };
}

const SPANS = 24;

/** The beginning and the length of the spans of a trend, in milliseconds. */
function trendSpans(failed) {
  const times = failed.map(({ judged_at }) => Date.parse(judged_at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  return [from, Math.floor((to - from) / SPANS) + 1];
}

/** The failed candidates of the live run by verdict; others have none. */
export function clusters(world, run = null) {
  if (world.views?.clusters) return world.views.clusters;
  if (run && run !== world.live) return [];
  const failed = world.nodes.filter(({ verdict }) => verdict && verdict !== "accepted");
  const kinds = [...new Set(failed.map(({ verdict }) => verdict))];
  const [from, span] = trendSpans(failed);
  const made = kinds.map((verdict) => {
    const own = failed.filter((node) => node.verdict === verdict);
    const shares = (name) => [...new Set(own.map(name))].map((value) => ({ name: value, count: own.filter((node) => name(node) === value).length }));
    return {
      verdict,
      cause: CAUSES[verdict],
      count: own.length,
      runs: 1,
      first_seen: own[0].judged_at,
      last_seen: own.at(-1).judged_at,
      trend: Array.from({ length: SPANS }, (_, at) => own.filter((node) => Math.floor((Date.parse(node.judged_at) - from) / span) === at).length),
      operators: shares((node) => node.operator.operator),
      proposers: shares((node) => node.proposer),
      examples: own.slice(-3).map((node) => member(world, node)),
    };
  });
  return made.sort((one, other) => other.count - one.count);
}

function page(all, url) {
  const skip = Number(url.searchParams.get("cursor") ?? 0);
  const limit = 30;
  const times = all.flatMap(({ first_seen, last_seen }) => [{ judged_at: first_seen }, { judged_at: last_seen }]);
  const [from, span] = trendSpans(times);
  const spans = all.length > 0 ? { from: new Date(from).toISOString(), span_us: span * 1000, spans: SPANS } : null;
  return { total: all.reduce((sum, { count }) => sum + count, 0), spans, clusters: all.slice(skip, skip + limit), next: all.length > skip + limit ? String(skip + limit) : null };
}

function members(world, url) {
  const found = world.nodes.filter(({ verdict }) => verdict === url.searchParams.get("verdict"));
  return { candidates: found.map((node) => member(world, node)), next: null };
}

/** A promotion in each state, and one that waits, of the live run's accepted candidates. */
export function promotions(world) {
  const [{ promotion: made }] = world.runs.filter(({ promotion }) => promotion);
  const committed = "9fceb02d0ae598e95dc970b74767f19372d61af8";
  const states = [
    { state: { state: "confirming" }, waits: "the run is paused (paused by request); the confirmation begins when the run is resumed", checks: [] },
    { state: { state: "committed", commit: committed } },
    { state: { state: "reverted", commit: committed, reason: "on NVIDIA L4 it has 0.97 times the speed of the baseline" } },
    { state: { state: "refused", reason: "incorrect output on fresh inputs" }, checks: made.checks.map((check) => ({ ...check, verdict: "incorrect_output", speedup: null })) },
    { state: { state: "blocked", reason: "the branch has commits that this service did not make; merge or delete it, then resume the run" }, checks: [] },
  ];
  const accepted = world.nodes.filter(({ verdict, ordinal }) => verdict === "accepted" && ordinal > 0);
  return states.map((over, at) => {
    const node = accepted[at % accepted.length];
    return {
      run: world.live,
      run_name: world.runs.find(({ id }) => id === world.live).name,
      task: TASK,
      ordinal: node.ordinal,
      title: node.title,
      speedup: node.speedup,
      modelled: node.modelled,
      created_at: node.created_at,
      updated_at: node.judged_at,
      promotion: { ...made, id: `0193a2f0-0003-7000-8000-${String(100 - at).padStart(12, "0")}`, candidate: node.id, waits: null, ...over },
    };
  });
}

function promotionPage(world, url) {
  const all = world.views?.promotions ?? (world.nodes.length > 0 ? promotions(world) : []);
  const wanted = url.searchParams.get("state");
  const matching = all.filter(({ promotion }) => !wanted || promotion.state.state === wanted);
  const skip = Number(url.searchParams.get("cursor") ?? 0);
  return { promotions: matching.slice(skip, skip + 30), next: matching.length > skip + 30 ? String(skip + 30) : null };
}

/** An estimate from so many past runs. */
export function estimate(past_runs) {
  const of = (median) => (past_runs === 0 ? null : { low: median * 0.8, median, high: median * 1.5 });
  return { past_runs, trials: 45, calls: of(54), tokens: of(310_000), dollars: of(1.8), minutes: of(12), device_seconds: of(95) };
}

function times(evaluation) {
  const timing = evaluation?.verdict.timing;
  if (!timing) return [];
  return [...timing.cases, ...timing.unscored].map((time) => ({ key: `${time.case} ${time.cache}`, case: time.case, cache: time.cache, value: { us: time.us ?? time.median_us, quartiles_us: time.quartiles_us ?? null, samples: time.samples ?? null } }));
}

export function compareCandidates(world, url) {
  const [left, right] = ["left", "right"].map((side) => {
    const node = world.nodes.find(({ id }) => id === url.searchParams.get(side));
    return node && detail(world.nodes, node, world.live);
  });
  if (!left || !right) return { status: 404, body: { type: "/problems/unknown-candidate", title: "Unknown candidate", status: 404, detail: "no such candidate is stored here" } };
  const side = ({ evaluation, source, idea, calls, diff, children, confirmation, digest, file, ...rest }) => ({ ...rest, task_version: evaluation?.task_version ?? null, device: evaluation?.device?.name ?? null, toolchain: evaluation?.toolchain ?? null, speedup_interval: null });
  const timed = left.speedup !== null && right.speedup !== null;
  const [ours, theirs] = [times(left.evaluation), times(right.evaluation)];
  const launches = (of) => (of.evaluation?.launches ?? []).flatMap(({ case: name, launches }) => launches.map((launch) => ({ case: name, launch: { ...launch, occupancy: 0.75, limited_by: "registers" } })));
  const [ourLaunches, theirLaunches] = [launches(left), launches(right)];
  const lines = (text, change) => text.split("\n").slice(0, -1).map((line, at) => ({ change, old: change === "added" ? null : at + 1, new: change === "removed" ? null : at + 1, text: line }));
  const body = {
    left: side(left),
    right: side(right),
    incomparable: timed ? null : "one of them was not accepted, and only accepted candidates have times",
    ratio: timed ? left.time_us / right.time_us : null,
    times: (ours.length > 0 ? ours : theirs).map(({ key, case: name, cache }) => {
      const [one, other] = [ours, theirs].map((list) => list.find((time) => time.key === key)?.value ?? null);
      return { case: name, cache, left: one, right: other, ratio: one && other ? one.us / other.us : null };
    }),
    kernels: [{ kernel: "softmax", left: left.evaluation?.kernels[0] ?? null, right: right.evaluation?.kernels[0] ?? null }],
    launches: (ourLaunches.length > 0 ? ourLaunches : theirLaunches).map(({ case: name }, at) => ({ case: name, left: ourLaunches[at]?.launch ?? null, right: theirLaunches[at]?.launch ?? null })),
    diff: left.source === right.source ? lines(left.source, "kept") : [...lines(left.source, "removed"), ...lines(right.source, "added")],
  };
  return { status: 200, body };
}

export function compareRuns(world, url) {
  const sides = ["left", "right"].map((side) => world.runs.find(({ id }) => id === url.searchParams.get(side)));
  if (sides.some((run) => !run)) return { status: 404, body: { type: "/problems/unknown-run", title: "Unknown run", status: 404, detail: "no such run is stored here" } };
  const equal = Math.min(...sides.map(({ trials }) => trials));
  const asked = url.searchParams.get("spent") === "true";
  const share = ({ spend }, part) => ({ dollars: spend.dollars * part, device_ms: Math.round(spend.device_ms * part) });
  const compared = sides.map((run) => {
    const best = run.best?.speedup ?? null;
    const points = best === null ? [] : [[0, 1], [Math.ceil(run.trials / 3), 1 + (best - 1) / 2], [Math.ceil(run.trials / 2), best]];
    const curve = points.map(([trial, speedup]) => ({ trial, ordinal: trial, candidate: run.best.candidate, speedup, spent: asked ? share(run, trial / Math.max(1, run.trials)) : null }));
    return { run, device: run.device, curve, best_at_equal_trials: curve.findLast(({ trial }) => trial <= equal)?.speedup ?? null };
  });
  const [left, right] = compared;
  const incomparable = left.run.task !== right.run.task ? "they search for kernels of different tasks or versions" : left.device !== right.device ? "one run's times are measured and the other's modelled" : null;
  return { status: 200, body: { left, right, incomparable, equal_trials: equal } };
}

/** Insights of the live run where a test asked for them; others have none. */
export function insights(world, run) {
  return run === world.live ? (world.views?.insights ?? []) : [];
}

/** A few insights: a win that two candidates had, a trap, and one that nothing is known of. */
export function someInsights(world, text = "") {
  const insight = (ordinal, thought, over) => ({ candidate: world.nodes[ordinal].id, ordinal, thought: thought + text, verdict: world.nodes[ordinal].verdict, speedup: world.nodes[ordinal].speedup, shown: 0, last_shown: null, judged: 0, accepted: 0, wins: 0, uplift: null, edit: null, corrected: null, ...over });
  return [
    insight(8, "16-byte loads and stores", { shown: 6, last_shown: 15, judged: 5, accepted: 3, wins: 2, uplift: 1.31 }),
    insight(16, "16-byte loads and stores.", {}),
    insight(11, "rows in pairs", { shown: 2, last_shown: 16, judged: 2 }),
    insight(6, "eight warps a block", {}),
  ];
}

/** The name of the world's task. */
export const taskName = TASK;
