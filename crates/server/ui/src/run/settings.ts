// The settings of runs that ask models, in words.

import type { Evolution, Method, PromptStyle } from "../api/types";
import { count } from "../words/format";

export const STYLES: Record<PromptStyle, string> = {
  standard: "the published method's sections",
  parallelism_first: "an order of work, parallelism first",
  task_insights: "task and insights, nothing else",
};

export const METHODS: Record<Method, string> = {
  playbook: "the task's hand-written steps in order, each with a sweep",
  sweep: "values of one source's tunables",
  external: "kernels come from outside, through the command line or the API",
  free: "a model that is shown the task and the best code",
  insight: "a model that is also shown times, profiles and insights",
  full: "a model that breeds from an elite, with insights",
};

export function methodAsksModels(method: Method): boolean {
  return method === "free" || method === "insight" || method === "full";
}

export function settings({ schedule, generations, faithful, temperature, repairs, style, prompt_tokens }: Evolution): string[] {
  return [
    schedule.mode === "steady" ? `steady with ${count(schedule.in_flight)} open` : "generational",
    `${count(generations)} ${generations === 1 ? "generation" : "generations"} after the first`,
    `temperature ${temperature}`,
    repairs === 0 ? "no repairs" : `${count(repairs)} ${repairs === 1 ? "repair" : "repairs"} in a row at most`,
    `style ${style.replaceAll("_", " ")}`,
    ...(prompt_tokens === null ? [] : [`prompts of ${count(prompt_tokens)} tokens at most`]),
    ...(faithful ? ["faithful to the published method"] : []),
  ];
}
