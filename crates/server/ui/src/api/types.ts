// The HTTP API's values as crates/domain writes them: snake_case, unions tagged by a field.
// Times of day are RFC 3339 texts in UTC; ids are bare UUIDs; digests are 64 hexadecimal digits.

export type VerdictKind =
  | "accepted"
  | "parse_rejected"
  | "policy_rejected"
  | "gate_rejected"
  | "compile_rejected"
  | "compile_timeout"
  | "compile_resource"
  | "compile_crash"
  | "launch_rejected"
  | "unsupported"
  | "timeout"
  | "runtime_fault"
  | "runner_crash"
  | "out_of_bounds"
  | "uninit_dependent"
  | "data_race"
  | "barrier_error"
  | "input_mutated"
  | "incorrect_output"
  | "precision_downgrade"
  | "non_deterministic"
  | "clock_mismatch"
  | "physically_impossible"
  | "inconclusive"
  | "invalid_run";

export type Method = "playbook" | "sweep" | "external";

export type StopReason = "exhausted" | "trials" | "wall_time" | "target" | "phase_closed" | "requested";

export type RunState =
  | { state: "created" }
  | { state: "checking_baseline" }
  | { state: "running" }
  | { state: "paused"; reason: string }
  | { state: "completed"; reason: StopReason }
  | { state: "failed"; reason: string }
  | { state: "cancelled" };

export interface Budget {
  trials: number;
  wall_seconds: number | null;
}

export interface Best {
  candidate: string;
  title: string;
  speedup: number;
  time_us: number;
  modelled: boolean;
}

export type PromotionState =
  | { state: "confirming" }
  | { state: "committed"; commit: string }
  | { state: "reverted"; commit: string; reason: string }
  | { state: "refused"; reason: string }
  | { state: "blocked"; reason: string };

export interface PromotionView {
  id: string;
  candidate: string;
  repository: string;
  branch: string;
  state: PromotionState;
}

export interface RunView {
  id: string;
  name: string;
  task: string;
  task_version: string;
  method: Method;
  state: RunState;
  budget: Budget;
  trials: number;
  verdicts: Partial<Record<VerdictKind, number>>;
  pending: number;
  best: Best | null;
  promotion: PromotionView | null;
  seed: number;
  created_at: string;
  updated_at: string;
}

export interface RunPage {
  runs: RunView[];
  next?: string | null;
}

export type Operator =
  | { operator: "baseline" }
  | { operator: "step"; file: string }
  | { operator: "sweep" }
  | { operator: "submit" };

export type CandidateState =
  | { state: "queued" }
  | { state: "evaluating"; stage: string; worker: string }
  | { state: "evaluated" }
  | { state: "duplicate"; of: string }
  | { state: "abandoned"; message: string };

export type GateSubject = "ctas_per_sm" | "registers" | "spill_bytes" | "static_shared_bytes";

export interface CandidateSummary {
  id: string;
  ordinal: number;
  generation: number;
  parents: string[];
  operator: Operator;
  proposer: string;
  title: string;
  configuration: Record<string, number>;
  state: CandidateState;
  verdict: VerdictKind | null;
  summary: string | null;
  line: number | null;
  speedup: number | null;
  time_us: number | null;
  modelled: boolean;
  unmet_gates: GateSubject[];
  best: boolean;
  created_at: string;
  judged_at: string | null;
}

export interface CandidatePage {
  candidates: CandidateSummary[];
  next?: string | null;
}

export interface Lineage {
  nodes: CandidateSummary[];
  truncated: boolean;
}

export interface DiffLine {
  change: "kept" | "added" | "removed";
  old: number | null;
  new: number | null;
  text: string;
}

export interface Idea {
  title: string;
  hypothesis: string;
  gain: [number, number] | null;
}

export interface CandidateDetail extends CandidateSummary {
  run: string;
  task: string;
  file: string;
  source: string;
  idea: Idea | null;
  digest: string | null;
  evaluation: Evaluation | null;
  confirmation: Evaluation | null;
  diff: DiffLine[];
  children: string[];
}

export type Axes = [number, number, number];

export type FindingKind =
  | "out_of_bounds_read"
  | "out_of_bounds_write"
  | "misaligned"
  | "uninitialised"
  | "shared_race"
  | "global_race"
  | "divergent_barrier"
  | "deadlock"
  | "hang"
  | "trap"
  | "assert"
  | "schedule_dependent"
  | "illegal_address";

export interface Finding {
  kind: FindingKind;
  kernel: string;
  line: number | null;
  block: Axes;
  thread: Axes;
  buffer: string | null;
  offset: number | null;
  other: { block: Axes; thread: Axes; line: number | null } | null;
  occurrences: number;
  message: string;
}

export interface Problem {
  file: string;
  line: number;
  column: number;
  message: string;
  fix: string;
}

export interface Diagnostic {
  line: number | null;
  severity: "error" | "warning";
  message: string;
}

export interface Comparison {
  outcome: "faster" | "not_faster" | "unresolved";
  ratio: number;
  interval: [number, number];
}

export interface Mismatch {
  case: string;
  distribution: string;
  tensor: string;
  reason: string;
  relative_l2: number | null;
  allowed_l2: number;
  worst: { index: number[]; found: string; expected: string } | null;
}

export type Verdict =
  | { kind: "accepted"; timing: Timing; comparison: Comparison | null; launch_bound: boolean }
  | { kind: "parse_rejected"; problems: Problem[] }
  | { kind: "policy_rejected"; problems: Problem[] }
  | { kind: "gate_rejected"; gate: string; limit: number; found: number }
  | { kind: "compile_rejected"; diagnostics: Diagnostic[] }
  | { kind: "compile_timeout"; seconds: number }
  | { kind: "compile_resource"; resource: string; limit: number; found: number | null; message: string }
  | { kind: "compile_crash"; how: string }
  | { kind: "launch_rejected"; reason: string }
  | { kind: "unsupported"; opcode: string; line: number | null }
  | { kind: "timeout"; stage: string; finding: Finding | null }
  | { kind: "runtime_fault"; code: number; name: string; finding: Finding | null }
  | { kind: "runner_crash"; how: string }
  | { kind: "out_of_bounds"; access: "read" | "write"; finding: Finding | null; reason: string }
  | { kind: "uninit_dependent"; finding: Finding | null; reason: string }
  | { kind: "data_race"; finding: Finding }
  | { kind: "barrier_error"; finding: Finding }
  | { kind: "input_mutated"; tensor: string }
  | ({ kind: "incorrect_output" } & Mismatch)
  | ({ kind: "precision_downgrade" } & Mismatch)
  | { kind: "non_deterministic"; reason: string; finding: Finding | null }
  | { kind: "clock_mismatch"; reason: string }
  | { kind: "physically_impossible"; case: string; floor_us: number; found_us: number }
  | { kind: "inconclusive"; reason: string }
  | { kind: "invalid_run"; reason: string };

export interface MeasuredTime {
  case: string;
  median_us: number;
  quartiles_us: [number, number];
  samples: number;
}

export interface ModelledLaunch {
  kernel: string;
  us: number;
  bottleneck: string;
  share: number;
}

export interface ModelledTime {
  case: string;
  us: number;
  launches: ModelledLaunch[];
}

export type Timing =
  | { kind: "measured"; cases: MeasuredTime[] }
  | { kind: "modelled"; device: string; label: string; cases: ModelledTime[] };

export interface Device {
  name: string;
  kind: "nvidia" | "emulated";
  uuid: string;
  compute_capability: [number, number];
  driver_version: number;
  memory_bytes: number;
  l2_bytes: number;
  limits: Limits;
}

export interface Limits {
  sm_count: number;
  threads_per_block: number;
  block: Axes;
  grid: Axes;
  shared_per_block: number;
  shared_per_block_optin: number;
  shared_per_sm: number;
  registers_per_block: number;
  registers_per_sm: number;
  threads_per_sm: number;
  blocks_per_sm: number;
}

export interface KernelResources {
  kernel: string;
  registers: number;
  spill_bytes: number;
  stack_bytes: number;
  static_shared_bytes: number;
  constant_bytes: number;
  parameters: number[];
}

export interface GateOutcome {
  subject: GateSubject;
  phase: string | null;
  case: string | null;
  min: number | null;
  max: number | null;
  found: number;
  met: boolean;
  enforce: "reject" | "phase" | "advise";
}

export interface CheckOutcome {
  case: string;
  distribution: string;
  tensor: string;
  relative_l2: number | null;
  worst_ratio: number | null;
  passed: boolean;
}

export interface LaunchFacts {
  kernel: string;
  grid: Axes;
  block: Axes;
  shared_bytes: number;
  modelled: ModelledLaunch | null;
  counters: Record<string, number>;
}

export interface CaseLaunches {
  case: string;
  launches: LaunchFacts[];
}

export interface Evaluation {
  verdict: Verdict;
  evaluator: number;
  stage: "baseline" | "search" | "confirmation";
  task_version: string;
  candidate_digest: string | null;
  image_digest: string | null;
  device: Device | null;
  toolchain: string | null;
  kernels: KernelResources[];
  gates: GateOutcome[];
  checks: CheckOutcome[];
  launches: CaseLaunches[];
  diagnostics: Diagnostic[];
  findings: Finding[];
  stages: { stage: string; milliseconds: number }[];
}

export interface Health {
  version: string;
  workers: number;
  queued: number;
}

export interface RunEvent {
  id: number;
  run: string;
  at: string;
  what: EventKind;
}

export type EventKind =
  | { kind: "run_changed"; state: RunState }
  | { kind: "proposed"; candidate: string; ordinal: number; title: string }
  | { kind: "stage"; candidate: string; stage: string; worker: string }
  | {
      kind: "judged";
      candidate: string;
      ordinal: number;
      title: string;
      verdict: VerdictKind;
      summary: string;
      speedup: number | null;
      best: boolean;
    }
  | { kind: "requeued"; candidate: string; reason: string }
  | { kind: "promotion"; promotion: PromotionView };

export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail: string;
  problems?: Problem[];
}
