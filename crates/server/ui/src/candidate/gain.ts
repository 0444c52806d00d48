// The author's expectation beside what was found.

import type { CandidateDetail } from "../api/types";

export type Outcome = "below" | "within" | "above" | "unknown";

export interface Gain {
  /** Lowest and highest. */
  expected: number[] | null;
  /** The parent's time over the candidate's; none unless both have times of one kind. */
  found: number | null;
  outcome: Outcome;
}

export function gain(candidate: CandidateDetail, parent: CandidateDetail | null): Gain {
  // A sweep carries its step's idea; what that expects is over the step's parent, not over the step.
  const own = candidate.operator.operator !== "sweep";
  const expected = own ? (candidate.idea?.gain ?? null) : null;
  const comparable =
    parent !== null && parent.time_us !== null && candidate.time_us !== null && parent.modelled === candidate.modelled;
  const found = comparable ? (parent.time_us ?? 0) / (candidate.time_us ?? 1) : null;
  if (expected === null || found === null) return { expected, found, outcome: "unknown" };
  const [low = 0, high = Infinity] = expected;
  return { expected, found, outcome: found < low ? "below" : found > high ? "above" : "within" };
}
