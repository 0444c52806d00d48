// Dead branches of the lineage: candidates that were not accepted, and nothing came of them.

import type { CandidateSummary } from "../api/types";

/** The candidates without dead branches, given by ordinal: those that were accepted or wait for a verdict, all that they descend from, and the baseline. */
export function withoutDeadBranches(nodes: readonly CandidateSummary[]): CandidateSummary[] {
  const kept = new Set<string>();
  // From the last to the first, because parents come before their children.
  for (let at = nodes.length - 1; at >= 0; at -= 1) {
    const node = nodes[at];
    if (!node || (hasFailed(node) && node.ordinal > 0 && !kept.has(node.id))) continue;
    kept.add(node.id);
    for (const parent of node.parents) kept.add(parent);
  }
  return nodes.filter(({ id }) => kept.has(id));
}

function hasFailed({ state, verdict }: CandidateSummary): boolean {
  return state.state === "abandoned" || (verdict !== null && verdict !== undefined && verdict !== "accepted");
}
