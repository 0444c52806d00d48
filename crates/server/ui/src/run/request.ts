// From what a person filled in to a request for a run, and from the service's problems back to
// the fields they name.

import type { ApiError } from "../api/client";
import type { Evolution, Method, Problem, RunRequest } from "../api/types";
import { parseTags } from "./tags";
import { methodAsksModels, methodHasReaders, methodHasStrategy } from "./settings";

/** The values of the form. A number that was not filled in is null. */
export interface Form {
  task: string;
  name: string;
  method: Method;
  /** The file that a sweep starts from; the baseline when empty. */
  start: string;
  /** The chosen models with their weights. */
  models: Record<string, number | null>;
  trials: number | null;
  tokens: number | null;
  dollars: number | null;
  wall_minutes: number | null;
  device_seconds: number | null;
  device_dollars: number | null;
  floor_percent: number | null;
  trials_without_gain: number | null;
  gain_per_dollar: number | null;
  mode: Evolution["schedule"]["mode"];
  in_flight: number | null;
  generations: number | null;
  temperature: number | null;
  repairs: number | null;
  sweep_percent: number | null;
  strategy: Evolution["strategy"];
  bandit: boolean;
  style: Evolution["style"];
  prompt_tokens: number | null;
  faithful: boolean;
  seed: number | null;
  device: string;
  /** Lessons of earlier runs, in Markdown. */
  lessons: string;
  /** Tags apart by blanks or commas. */
  tags: string;
  repository: string;
  base: string;
  path: string;
  region: string;
}

export function emptyForm(): Form {
  return {
    task: "",
    name: "",
    method: "playbook",
    start: "",
    models: {},
    trials: 45,
    tokens: null,
    dollars: null,
    wall_minutes: null,
    device_seconds: null,
    device_dollars: null,
    floor_percent: null,
    trials_without_gain: null,
    gain_per_dollar: null,
    mode: "generational",
    in_flight: 4,
    generations: 10,
    temperature: 1,
    repairs: 2,
    sweep_percent: 25,
    strategy: "surrogate",
    bandit: false,
    style: "standard",
    prompt_tokens: null,
    faithful: false,
    seed: 0,
    device: "",
    lessons: "",
    tags: "",
    repository: "",
    base: "",
    path: "",
    region: "",
  };
}

/** Leaves out what was not filled in. */
function filled<T extends object>(values: T): { [Key in keyof T]?: Exclude<T[Key], null | ""> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== "")) as never;
}

/** Makes the request: only the fields that the method takes, without those left empty. */
export function requestOf(form: Form): RunRequest {
  const asks = methodAsksModels(form.method);
  const text = ({ name, device, start }: Form) =>
    filled({ name: name.trim(), device: device.trim(), start: form.method === "sweep" ? start : "" });
  const wall_seconds = form.wall_minutes === null ? null : Math.round(form.wall_minutes * 60);
  const { trials, device_seconds, device_dollars, floor_percent, trials_without_gain, tokens, dollars, gain_per_dollar } = form;
  const shared = { trials, wall_seconds, device_seconds, device_dollars, floor_percent, trials_without_gain };
  const budget = filled(asks ? { ...shared, tokens, dollars, gain_per_dollar } : shared);
  const request: RunRequest = { task: form.task, method: form.method, ...text(form), budget };
  if (form.seed !== null) request.seed = form.seed;
  if (methodHasReaders(form.method) && form.lessons.trim() !== "") request.lessons = form.lessons;
  const tags = parseTags(form.tags);
  if (tags.length > 0) request.tags = tags;
  if (form.repository.trim() !== "") {
    const target = filled({ base: form.base.trim(), path: form.path.trim(), region: form.path.trim() === "" ? "" : form.region.trim() });
    request.promotion = { repository: form.repository.trim(), ...target };
  }
  if (asks) {
    request.models = Object.entries(form.models).map(([name, weight]) => ({ name, ...filled({ weight }) }));
    request.evolution = evolutionOf(form);
  } else if (methodHasStrategy(form.method)) {
    request.evolution = { strategy: form.strategy };
  }
  return request;
}

function evolutionOf(form: Form): NonNullable<RunRequest["evolution"]> {
  const { generations, temperature, repairs, sweep_percent, strategy, bandit, prompt_tokens, style, faithful } = form;
  // A number that was taken away is the service's default, except where it would be missed.
  const schedule = form.mode === "steady" ? { mode: form.mode, in_flight: form.in_flight ?? 1 } : { mode: form.mode };
  return { schedule, style, faithful, strategy, bandit, ...filled({ generations, temperature, repairs, sweep_percent, prompt_tokens }) };
}

/** The reason why a typed number cannot be sent; null where it can. */
export function complaint({ validity, valueAsNumber }: Pick<HTMLInputElement, "validity" | "valueAsNumber">): string | null {
  if (validity.badInput) return "give a number";
  if (valueAsNumber < 0) return "give a number from 0";
  if (validity.stepMismatch) return "give a whole number";
  return null;
}

/**
 * Problems by the field that they name, or by the nearest field around it: a problem with
 * `models[1].weight` stands at `models`. Those that name no field of the form stand under the empty name.
 */
export function byField(problems: readonly Problem[], fields: readonly string[]): Map<string, Problem[]> {
  const sorted = new Map<string, Problem[]>();
  for (const problem of problems) {
    const field = fieldOf(problem.file, fields);
    sorted.set(field, [...(sorted.get(field) ?? []), problem]);
  }
  return sorted;
}

/** The field of the form with this path, or the nearest one around it; empty if there is none. */
function fieldOf(path: string, fields: readonly string[]): string {
  if (path === "" || fields.includes(path)) return path;
  return fieldOf(path.replace(/(^|\.|\[)[^.[]*$/, ""), fields);
}

/** The problems that an error names. A task or a repository that is not there is a problem of its field. */
export function problemsOf({ status, title, detail, problems }: Pick<ApiError, "status" | "title" | "detail" | "problems">): Problem[] {
  if (status !== 404 || title !== "Unknown task") return problems;
  return [...problems, { file: "task", line: 0, column: 0, message: detail, fix: "" }];
}

/**
 * The key under which a request is sent. Asked again after an answer was lost, the same request
 * has the same key and makes no second run; a changed one has a new key.
 */
export class RequestKey {
  #request = "";
  #key = "";

  constructor(private readonly fresh: () => string) {}

  of(request: object): string {
    const text = JSON.stringify(request);
    if (text !== this.#request) {
      this.#request = text;
      this.#key = this.fresh();
    }
    return this.#key;
  }
}
