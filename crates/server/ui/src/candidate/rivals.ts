// The candidates with which the page of a candidate offers a comparison.

import type { CandidateDetail, CandidateSummary, RunView } from "../api/types";

export interface Rival {
  id: string;
  /** Its relations to the candidate, such as parent; it may have several. */
  names: string[];
}

/** The parent, the incumbent and the run's champion, each once and none of them the candidate itself. */
export function rivals(
  candidate: Pick<CandidateDetail, "id">,
  { parent, incumbent, run }: { parent: Pick<CandidateSummary, "id"> | null; incumbent: Pick<CandidateSummary, "id"> | null; run: Pick<RunView, "best"> | null },
): Rival[] {
  const found: [string, string | undefined][] = [
    ["parent", parent?.id],
    ["incumbent", incumbent?.id],
    ["best of the run", run?.best?.candidate],
  ];
  const names = new Map<string, string[]>();
  for (const [name, id] of found) if (id !== undefined && id !== candidate.id) names.set(id, [...(names.get(id) ?? []), name]);
  return [...names].map(([id, names]) => ({ id, names }));
}
