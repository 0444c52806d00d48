// The other candidates that the page of a candidate names.

import type { CandidateDetail } from "../api/types";

/** The most children whose words are read. */
const CHILDREN = 100;

/** Their ids, each once: parents, the code's original, the first children, and what its prompts showed. */
export function relatives({ parents, children, state, calls }: Pick<CandidateDetail, "parents" | "children" | "state" | "calls">): string[] {
  const original = state.state === "duplicate" ? [state.of] : [];
  const shown = calls.flatMap(({ seen }) => [...(seen.best ? [seen.best] : []), ...seen.parents, ...seen.insights, ...seen.duplicates]);
  return [...new Set([...parents, ...original, ...shown, ...children.slice(0, CHILDREN)])];
}
