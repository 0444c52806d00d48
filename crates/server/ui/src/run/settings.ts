// The settings of runs that ask models, in words.

import type { Evolution, Method, PromptStyle, Strategy } from "../api/types";
import { count } from "../words/format";

export const STYLES: Record<PromptStyle, string> = {
  standard: "the published method's sections",
  parallelism_first: "an order of work, parallelism first",
  task_insights: "task and insights, nothing else",
};

/** The ways to choose configurations, the default first. */
export const STRATEGIES: Record<Strategy, string> = {
  surrogate: "a random forest that predicts their ranks",
  greedy: "iterated local search",
  genetic: "a genetic algorithm",
  simulated_annealing: "simulated annealing",
  dual_annealing: "dual annealing",
  latin_hypercube: "Latin hypercube samples of 16 each",
  random: "in random order",
  exhaustive: "in the order of their values",
};

export const METHODS: Record<Method, string> = {
  playbook: "the task's hand-written steps in order, each with a sweep",
  sweep: "values of one source's tunables",
  external: "kernels come from outside, through the command line or the API",
  transform: "structural edits of the fastest kernels, without a model",
  free: "a model that is shown the task and the best code",
  insight: "a model that is also shown times, profiles and insights",
  full: "a model that breeds from an elite, with insights",
  archive: "a model that breeds from the fastest of each technique and bounding resource, with insights",
  best_of: "a model that writes one candidate after another from the best",
  refine: "a model that improves several chains; the slower half is dropped every four steps",
  eoh: "a model that is asked for new forms and parameters by four operators (EoH)",
  funsearch: "a model that continues programs of islands (FunSearch)",
  ai_cuda_engineer: "a model that is shown the five fastest, from slow to fast",
  adaptive: "a model that is shown as much of the run as validity and progress ask for",
};

/** The methods that ask no model, in the order of the form. */
export const WITHOUT_MODELS: Method[] = ["playbook", "sweep", "transform", "external"];
/** The methods that ask models, in the order of the form. */
export const WITH_MODELS: Method[] = [
  "insight", "full", "archive", "free", "best_of", "refine", "adaptive", "eoh", "funsearch", "ai_cuda_engineer",
];

export function methodAsksModels(method: Method): boolean {
  return WITH_MODELS.includes(method);
}

/** True if configurations of tunables are searched, by a strategy that a request may name. */
export function methodHasStrategy(method: Method): boolean {
  return methodAsksModels(method) || method === "sweep" || method === "transform";
}

/** True if someone reads a prompt: a model, or whoever submits candidates. */
export function methodHasReaders(method: Method): boolean {
  return methodAsksModels(method) || method === "external";
}

/** The settings of a run in words. A faithful run neither repairs, sweeps nor learns which model to ask. */
export function settings({ schedule, generations, faithful, temperature, repairs, sweep_percent, strategy, first_configurations: first = [], bandit, style, prompt_tokens }: Evolution): string[] {
  const extensions = [
    repairs === 0 ? "no repairs" : `${count(repairs)} ${repairs === 1 ? "repair" : "repairs"} in a row at most`,
    sweep_percent === 0 ? "tunables of the fastest are not searched" : `${count(sweep_percent)}\u00a0% of the timed candidates are configurations of the fastest, by ${strategy.replaceAll("_", " ")}`,
    ...(first.length === 0 ? [] : [`${count(first.length)} ${first.length === 1 ? "configuration" : "configurations"} of the request first`]),
    bandit ? "models and operators chosen by gain per dollar" : "models chosen by weight, operators in turn",
  ];
  return [
    schedule.mode === "steady" ? `steady with ${count(schedule.in_flight)} open` : "generational",
    `${count(generations)} ${generations === 1 ? "generation" : "generations"} after the first`,
    `temperature ${temperature}`,
    ...(faithful ? ["faithful to the published method"] : extensions),
    `style ${style.replaceAll("_", " ")}`,
    ...(prompt_tokens === null ? [] : [`prompts of ${count(prompt_tokens)} tokens at most`]),
  ];
}
