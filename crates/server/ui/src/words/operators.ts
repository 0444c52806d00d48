// The operators that make candidates, in words.

import type { Operator } from "../api/types";

/** Every operator with what it means, in the order of legends. */
export const OPERATORS: Record<Operator["operator"], string> = {
  baseline: "the task's own kernel",
  step: "a step of the playbook",
  sweep: "a configuration of its parent",
  edit: "its parent with one structural edit",
  submit: "handed in from outside",
  fork: "a copy of the candidate that the run was forked from",
  init: "written by a model that saw the best",
  crossover: "written by a model from two parents",
  mutation: "written by a model from one parent",
  repair: "written by a model that saw what is wrong with its parent",
  improve: "written by a model from versions that it was to improve on",
  explore: "written by a model that was asked for another form than its parents'",
  retune: "written by a model that was asked for other parameters of its parent",
};

export const OPERATOR_NAMES = Object.keys(OPERATORS) as Operator["operator"][];

export function operatorName(operator: Operator): string {
  return operator.operator === "step" ? `step ${operator.file}` : operator.operator;
}
