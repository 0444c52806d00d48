// Applies a batch of events to the candidates that are already known.

import type { CandidateSummary, RunEvent } from "../api/types";
import { promotionFailure } from "../words/verdicts";

/** Candidates with successive ordinals. */
export interface Window {
  first: number;
  size: number;
}

export interface Patched {
  nodes: CandidateSummary[];
  /** The windows that must be read again, because events carry too little. */
  stale: Window[];
  /** True if the run's own numbers or state changed. */
  runChanged: boolean;
}

/** The most candidates of one window. */
const WINDOW = 50;

/**
 * Applies events to candidates given by ordinal. An event that was applied before changes
 * nothing. Candidates that are not known are read, unless the list was cut off by intention.
 */
export function patch(nodes: readonly CandidateSummary[], events: readonly RunEvent[], truncated = false): Patched {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const stale = new Set<number>();
  let runChanged = false;
  for (const { what, at } of events) {
    switch (what.kind) {
      case "run_changed":
      case "steered":
        runChanged = true;
        break;
      case "promotion": {
        runChanged = true;
        const { candidate, state } = what.promotion;
        const champion = byId.get(candidate);
        if (!champion) break;
        byId.set(candidate, { ...champion, promotion: state });
        // A failed confirmation makes another candidate the best, and duplicates fail with it.
        if (promotionFailure({ promotion: state })) for (const node of byId.values()) if (node.verdict === "accepted") stale.add(node.ordinal);
        break;
      }
      case "proposed":
        if (byId.has(what.candidate)) break;
        runChanged = true;
        if (!truncated) stale.add(what.ordinal);
        break;
      case "stage": {
        const node = byId.get(what.candidate);
        if (node && node.verdict === null) {
          const state = { state: "evaluating" as const, stage: what.stage, worker: what.worker };
          byId.set(node.id, { ...node, state });
        }
        break;
      }
      case "replied":
        runChanged = true;
        if (byId.get(what.candidate)?.state.state === "drafting" || !(byId.has(what.candidate) || truncated)) stale.add(what.ordinal);
        break;
      case "unanswered": {
        const node = byId.get(what.candidate);
        if (node?.state.state === "drafting") {
          byId.set(node.id, { ...node, state: { state: "drafting", model: what.model, trouble: what.reason } });
        }
        break;
      }
      case "abandoned": {
        runChanged = true;
        const node = byId.get(what.candidate);
        if (node && node.verdict === null) byId.set(node.id, { ...node, state: { state: "abandoned", message: what.reason } });
        break;
      }
      case "requeued": {
        const node = byId.get(what.candidate);
        if (node && node.verdict === null) byId.set(node.id, { ...node, state: { state: "queued" } });
        break;
      }
      case "judged": {
        const node = byId.get(what.candidate);
        if (node?.verdict) break;
        runChanged = true;
        if (node || !truncated) stale.add(what.ordinal);
        if (!node) break;
        const { verdict, summary, speedup, best } = what;
        if (best) for (const [id, other] of byId) if (other.best) byId.set(id, { ...other, best: false });
        byId.set(node.id, {
          ...node,
          state: { state: "evaluated" },
          verdict,
          summary,
          speedup,
          best,
          judged_at: at,
        });
        break;
      }
    }
  }
  return { nodes: [...byId.values()], stale: windows(stale), runChanged };
}

/** The fewest windows that cover every ordinal. */
function windows(ordinals: Set<number>): Window[] {
  const made: Window[] = [];
  for (const ordinal of [...ordinals].sort((one, other) => one - other)) {
    const last = made.at(-1);
    if (last && ordinal < last.first + WINDOW) last.size = ordinal - last.first + 1;
    else made.push({ first: ordinal, size: 1 });
  }
  return made;
}

/**
 * The windows that are read now, of at most `most` candidates together, and the others. Windows that follow each other
 * or overlap are joined, because events of one candidate often come apart.
 */
export function split(owed: readonly Window[], most: number): { now: Window[]; later: Window[] } {
  const ordinals = new Set<number>();
  for (const { first, size } of owed) for (let ordinal = first; ordinal < first + size; ordinal += 1) ordinals.add(ordinal);
  const now: Window[] = [];
  const later: Window[] = [];
  let left = most;
  for (const window of windows(ordinals)) {
    if (window.size <= left) {
      now.push(window);
      left -= window.size;
    } else later.push(window);
  }
  return { now, later };
}

/** Takes over newer versions of candidates, keeping the order by ordinal. */
export function merge(nodes: readonly CandidateSummary[], newer: readonly CandidateSummary[]): CandidateSummary[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of newer) byId.set(node.id, node);
  return [...byId.values()].sort((one, other) => one.ordinal - other.ordinal);
}
