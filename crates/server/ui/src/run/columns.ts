// Candidates of a large run, from the service's columns. A column names a candidate by its ordinal, so each gets a
// provisional id, under which pages find it until it is read in full.

import type { BestCurve, CandidateState, CandidateSummary, LineageColumns, Operator, RunEvent, RunView, VerdictKind } from "../api/types";
import { provisionalId } from "../api/provisional";
import type { Window } from "./patch";

/** The candidates of a slice, with what columns do not tell left empty. */
export function fromColumns(columns: LineageColumns, run: Pick<RunView, "id" | "created_at" | "best">): CandidateSummary[] {
  const further = new Map<number, number[]>();
  for (const [ordinal = 0, parent = 0] of columns.further_parents) further.set(ordinal, [...(further.get(ordinal) ?? []), parent]);
  const duplicates = new Set(columns.duplicates);
  return columns.ordinals.map((ordinal, at) => {
    const parent = columns.parents[at] ?? null;
    const outcome = columns.outcome_names[columns.outcomes[at] ?? 0] ?? "pending";
    const operator = columns.operator_names[columns.operators[at] ?? 0] ?? "submit";
    const verdict = outcome === "pending" || outcome === "abandoned" ? null : (outcome as VerdictKind);
    return {
      ...bare(run, ordinal, columns.speedups[at] ?? null, columns.seconds[at] ?? 0),
      generation: columns.generations[at] ?? 0,
      island: columns.islands[at] ?? null,
      parents: [...(parent === null ? [] : [parent]), ...(further.get(ordinal) ?? [])].map((of) => provisionalId(run.id, of)),
      operator: { operator } as Operator,
      title: operator,
      state: state(outcome, duplicates.has(ordinal)),
      verdict,
      best: ordinal === columns.best,
    };
  });
}

/** The fastest candidate of each bucket of a curve: those that stand for a run which is too large to show each. */
export function fromCurve(curve: BestCurve, run: Pick<RunView, "id" | "created_at" | "best">): CandidateSummary[] {
  let best = -1;
  curve.fastest.forEach((speedup, at) => {
    if (speedup !== null && speedup > (curve.fastest[best] ?? 0)) best = at;
  });
  return curve.fastest_ordinals.flatMap((ordinal, at) => {
    const speedup = curve.fastest[at] ?? null;
    if (ordinal === null || speedup === null) return [];
    return [{ ...bare(run, ordinal, speedup, curve.fastest_seconds[at] ?? 0), best: at === best }];
  });
}

/** An accepted candidate without its words. */
function bare(run: Pick<RunView, "id" | "created_at" | "best">, ordinal: number, speedup: number | null, seconds: number): CandidateSummary {
  const time = new Date(Date.parse(run.created_at) + 1_000 * seconds).toISOString();
  return {
    id: provisionalId(run.id, ordinal),
    ordinal,
    generation: 0,
    island: null,
    parents: [],
    operator: { operator: ordinal === 0 ? "baseline" : "submit" },
    proposer: "",
    title: `candidate ${ordinal}`,
    configuration: {},
    state: { state: "evaluated" },
    verdict: "accepted",
    summary: null,
    line: null,
    speedup,
    time_us: null,
    modelled: speedup !== null && (run.best?.modelled ?? false),
    unmet_gates: [],
    best: false,
    verdict_of: null,
    promotion: null,
    cost: null,
    created_at: time,
    judged_at: time,
  };
}

function state(outcome: string, isDuplicate: boolean): CandidateState {
  if (outcome === "pending") return { state: "queued" };
  if (outcome === "abandoned") return { state: "abandoned", message: "" };
  return isDuplicate ? { state: "duplicate", of: "" } : { state: "evaluated" };
}

/** The candidates that are read again after events, and whether the run is. */
export function changed(events: readonly RunEvent[]): { stale: Window[]; runChanged: boolean } {
  const ordinals = new Set<number>();
  let runChanged = false;
  for (const { what } of events) {
    if ("ordinal" in what) ordinals.add(what.ordinal);
    runChanged ||= what.kind !== "stage" && what.kind !== "requeued" && what.kind !== "unanswered";
  }
  return { stale: [...ordinals].sort((one, other) => one - other).map((first) => ({ first, size: 1 })), runChanged };
}

/** Sets which candidate is the best; candidates that keep their role stay the same values. */
export function withBest(nodes: readonly CandidateSummary[], ordinal: number | null): CandidateSummary[] {
  return nodes.map((node) => (node.best === (node.ordinal === ordinal) ? node : { ...node, best: !node.best }));
}
