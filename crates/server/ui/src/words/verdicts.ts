// The closed list of verdicts in words, with the stage of the evaluation each one ends at.
// A tone is a family of colours; no tone is ever shown without its word or its mark.

import type { CandidateSummary, VerdictKind } from "../api/types";

export type Tone = "good" | "early" | "wrong" | "unsafe" | "died" | "unsure" | "pending";

/** The stages of an evaluation, in order. */
export const STAGES = ["parse", "compile", "gates", "run", "memory", "correct", "time"] as const;
export type Stage = (typeof STAGES)[number];

/** The word for a candidate that has passed a stage. */
export const PASSED: Record<Stage, string> = {
  parse: "well-formed",
  compile: "compiled",
  gates: "within gates",
  run: "ran to the end",
  memory: "memory-safe",
  correct: "correct",
  time: "accepted",
};

interface Word {
  label: string;
  tone: Tone;
  /** The stage that rejects with this verdict; none for accepted. */
  stopped: Stage | null;
}

const WORDS: Record<VerdictKind, Word> = {
  accepted: { label: "accepted", tone: "good", stopped: null },
  parse_rejected: { label: "malformed", tone: "early", stopped: "parse" },
  policy_rejected: { label: "against policy", tone: "early", stopped: "parse" },
  compile_rejected: { label: "does not compile", tone: "early", stopped: "compile" },
  compile_timeout: { label: "compiler timeout", tone: "early", stopped: "compile" },
  compile_resource: { label: "over resources", tone: "early", stopped: "compile" },
  compile_crash: { label: "compiler crash", tone: "early", stopped: "compile" },
  gate_rejected: { label: "gate broken", tone: "early", stopped: "gates" },
  launch_rejected: { label: "cannot launch", tone: "early", stopped: "gates" },
  unsupported: { label: "unsupported instruction", tone: "unsure", stopped: "run" },
  timeout: { label: "timeout", tone: "died", stopped: "run" },
  excessive_effort: { label: "too much effort", tone: "died", stopped: "run" },
  runtime_fault: { label: "runtime fault", tone: "died", stopped: "run" },
  runner_crash: { label: "runner crash", tone: "died", stopped: "run" },
  out_of_bounds: { label: "out of bounds", tone: "unsafe", stopped: "memory" },
  uninit_dependent: { label: "uninitialised memory", tone: "unsafe", stopped: "memory" },
  data_race: { label: "data race", tone: "unsafe", stopped: "memory" },
  barrier_error: { label: "barrier error", tone: "unsafe", stopped: "memory" },
  input_mutated: { label: "input changed", tone: "unsafe", stopped: "memory" },
  incorrect_output: { label: "incorrect output", tone: "wrong", stopped: "correct" },
  precision_downgrade: { label: "precision downgrade", tone: "wrong", stopped: "correct" },
  non_deterministic: { label: "not deterministic", tone: "wrong", stopped: "correct" },
  clock_mismatch: { label: "clocks disagree", tone: "unsure", stopped: "time" },
  physically_impossible: { label: "physically impossible", tone: "unsure", stopped: "time" },
  inconclusive: { label: "inconclusive", tone: "unsure", stopped: "time" },
  invalid_run: { label: "invalid measurement", tone: "unsure", stopped: "time" },
};

/** Order in which verdicts are listed: the good first, then as the evaluation meets them. */
export const VERDICTS = Object.keys(WORDS) as VerdictKind[];

export function label(kind: VerdictKind): string {
  return WORDS[kind]?.label ?? kind.replaceAll("_", " ");
}

export function tone(kind: VerdictKind): Tone {
  return WORDS[kind]?.tone ?? "unsure";
}

/** A mark that tells tones apart without colour. */
export const MARKS: Record<Tone, string> = {
  good: "✓",
  early: "⊘",
  wrong: "≠",
  unsafe: "⚠",
  died: "✕",
  unsure: "?",
  pending: "…",
};

export interface Standing {
  tone: Tone;
  label: string;
}

/** The reason why the promotion of a candidate failed, in its confirmation or in a later check; null if it did not fail. */
export function promotionFailure({ promotion }: Pick<CandidateSummary, "promotion">): { label: string; reason: string } | null {
  if (promotion?.state === "refused") return { label: "not confirmed", reason: promotion.reason };
  if (promotion?.state === "reverted") return { label: "promotion taken back", reason: promotion.reason };
  return null;
}

/** Marks a waiting candidate as not evaluated, for a run that is over: nothing is evaluated there any more. */
export function whenOver(node: CandidateSummary): CandidateSummary {
  if (!["drafting", "queued", "evaluating"].includes(node.state.state)) return node;
  return { ...node, state: { state: "abandoned", message: ENDED } };
}

const ENDED = "The run ended before it was evaluated.";

/** The state or the verdict of a candidate, in a few words. */
export function standing(candidate: CandidateSummary): Standing {
  const { state, verdict } = candidate;
  if (state.state === "abandoned" && state.message === ENDED) return { tone: "pending", label: "not evaluated" };
  const failure = promotionFailure(candidate);
  if (failure) return { tone: "wrong", label: state.state === "duplicate" ? `duplicate, ${failure.label}` : failure.label };
  if (state.state === "abandoned") return { tone: "died", label: "abandoned" };
  if (verdict) {
    const word = state.state === "duplicate" ? `duplicate, ${label(verdict)}` : label(verdict);
    return { tone: tone(verdict), label: word };
  }
  if (state.state === "drafting") {
    return state.trouble ? { tone: "died", label: `no answer from ${state.model}` } : { tone: "pending", label: `asking ${state.model}` };
  }
  if (state.state === "evaluating") return { tone: "pending", label: state.stage };
  if (state.state === "duplicate") return { tone: "pending", label: "duplicate" };
  return { tone: "pending", label: "queued" };
}

/** Returns true if the candidate has no kernel: it is not written yet, or the model's reply holds none. */
export function lacksKernel({ state, verdict }: CandidateSummary): boolean {
  return verdict === "parse_rejected" || state.state === "drafting" || state.state === "abandoned";
}

export interface FunnelStep {
  stage: Stage;
  label: string;
  passed: number;
  /** The verdicts of this stage with their counts, the most frequent first. */
  stopped: { kind: VerdictKind; count: number }[];
}

/** Counts the judged candidates that passed each stage. */
export function funnel(verdicts: Partial<Record<VerdictKind, number>>): { judged: number; steps: FunnelStep[] } {
  const entries = VERDICTS.map((kind) => ({ kind, count: verdicts[kind] ?? 0 })).filter(({ count }) => count > 0);
  const judged = entries.reduce((sum, { count }) => sum + count, 0);
  let left = judged;
  const steps = STAGES.map((stage) => {
    const stopped = entries
      .filter(({ kind }) => WORDS[kind].stopped === stage)
      .sort((one, other) => other.count - one.count);
    left -= stopped.reduce((sum, { count }) => sum + count, 0);
    return { stage, label: PASSED[stage], passed: left, stopped };
  });
  return { judged, steps };
}
