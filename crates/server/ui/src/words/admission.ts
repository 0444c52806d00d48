// The rules of a task's admission in words.

import type { TaskAdmission } from "../api/types";

type Result = TaskAdmission["admission"]["points"][number];

const RULES: Record<Result["rule"], string> = {
  compiles: "compiles",
  references_agree: "references agree",
  not_near_zero: "not near zero",
  varies_with_seeds: "varies with draws",
  varies_along_axes: "varies along axes",
  depends_on_input: "depends on input",
  depends_as_declared: "depends as declared",
  honest_inside: "honest kernels are inside",
  forbidden_outside: "lower precision is outside",
  separation: "precisions are apart",
  impostor_rejected: "impostor turned away",
  baseline_accepted: "baseline accepted",
  baseline_noise: "baseline against itself",
};

/** A rule in a word or three. */
export function ruleName(rule: Result["rule"]): string {
  return RULES[rule];
}

/** The results with the broken rules first, each group in the order in which it was decided. */
export function brokenFirst(results: readonly Result[]): Result[] {
  return [...results.filter(({ holds }) => !holds), ...results.filter(({ holds }) => holds)];
}

/** The admissions of one upload; those of all others if it has none, because they are the closest known. */
export function admissionsOf(content: string | undefined, all: readonly TaskAdmission[]): { own: boolean; shown: TaskAdmission[] } {
  const own = all.filter((admission) => admission.content === content);
  return own.length > 0 ? { own: true, shown: own } : { own: false, shown: all.slice(0, 1) };
}
