// Search in the lineage, and what of it a replay shows.

import type { CandidateSummary } from "../api/types";
import { promotionFailure, standing } from "../words/verdicts";

/** Returns true if a candidate matches: by number (`#12`), by the beginning of its id, or by a part of its words. */
export function matches(node: CandidateSummary, wanted: string): boolean {
  const text = wanted.trim().toLowerCase();
  if (text === "") return true;
  const number = /^#(\d+)$/.exec(text)?.[1];
  if (number) return node.ordinal === Number(number);
  const id = text.replace(/^cand_/, "");
  if (id.length >= 6 && node.id.startsWith(id)) return true;
  return [node.title, node.proposer, node.operator.operator, standing(node).label].some((words) => words.toLowerCase().includes(text)) || String(node.ordinal) === text;
}

/** The fastest candidate up to an ordinal that was not refused; the run's best where all of the run is shown. */
export function bestUpTo(nodes: readonly CandidateSummary[], last: number): CandidateSummary | undefined {
  let best: CandidateSummary | undefined;
  for (const node of nodes) {
    if (node.ordinal > last || node.speedup === null || promotionFailure(node)) continue;
    if (!best || node.speedup > (best.speedup ?? 0)) best = node;
  }
  return best;
}
