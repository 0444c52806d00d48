import { describe, expect, it } from "vitest";

import type { Method, Problem } from "../api/types";
import { byField, emptyForm, requestOf, RequestKey, type Form, problemsOf } from "./request";
import { settings } from "./settings";

function form(over: Partial<Form>): Form {
  return { ...emptyForm(), task: "softmax", ...over };
}

describe("a request", () => {
  it("says nothing of models where the method asks none", () => {
    const request = requestOf(form({ method: "playbook", models: { fast: 1 }, dollars: 3, tokens: 10 }));
    expect(request).toEqual({ task: "softmax", method: "playbook", budget: { trials: 45 }, seed: 0 });
  });

  it("names the strategy where tunables are searched without a model", () => {
    const asked = (method: Method) => requestOf(form({ method, strategy: "greedy" })).evolution;
    expect([asked("sweep"), asked("transform"), asked("playbook")]).toEqual([{ strategy: "greedy" }, { strategy: "greedy" }, undefined]);
  });

  it("names models with their weights, and budgets that were filled in", () => {
    const request = requestOf(form({ method: "full", models: { fast: 2, deep: null }, dollars: 3, wall_minutes: 1.5 }));
    expect(request.models).toEqual([{ name: "fast", weight: 2 }, { name: "deep" }]);
    expect(request.budget).toEqual({ trials: 45, dollars: 3, wall_seconds: 90 });
    expect(request.evolution).toMatchObject({ schedule: { mode: "generational" }, generations: 10, repairs: 2, style: "standard" });
  });

  it("has the tags that were typed", () => {
    expect(requestOf(form({ tags: "paper-2026 l4" })).tags).toEqual(["paper-2026", "l4"]);
    expect(requestOf(form({ tags: " " }))).not.toHaveProperty("tags");
  });

  it("keeps a zero, which is not the same as nothing", () => {
    const request = requestOf(form({ method: "free", models: { fast: 0 }, trials: 0, temperature: 0, generations: null }));
    expect(request.models).toEqual([{ name: "fast", weight: 0 }]);
    expect(request.budget).toEqual({ trials: 0 });
    expect(request.evolution).toMatchObject({ temperature: 0 });
    expect(request.evolution).not.toHaveProperty("generations");
  });

  it("ends early and sweeps as it was told to", () => {
    const early = { floor_percent: 90, trials_without_gain: 10, gain_per_dollar: 2, sweep_percent: 0, bandit: true };
    const asked = requestOf(form({ method: "free", models: { fast: 1 }, ...early }));
    expect(asked.budget).toEqual({ trials: 45, floor_percent: 90, trials_without_gain: 10, gain_per_dollar: 2 });
    expect(asked.evolution).toMatchObject({ sweep_percent: 0, bandit: true });
    expect(requestOf(form({ method: "playbook", ...early })).budget).toEqual({ trials: 45, floor_percent: 90, trials_without_gain: 10 });
  });

  it("has a start file only for a sweep, and a width only when steady", () => {
    const start = "playbook/01.cu";
    expect(requestOf(form({ method: "sweep", start }))).toMatchObject({ start });
    expect(requestOf(form({ method: "external", start }))).not.toHaveProperty("start");
    const steady = requestOf(form({ method: "full", mode: "steady", in_flight: 6 }));
    expect(steady.evolution?.schedule).toEqual({ mode: "steady", in_flight: 6 });
  });

  it("promotes to another repository only when one is named", () => {
    expect(requestOf(form({ base: "main" }))).not.toHaveProperty("promotion");
    const promotion = { repository: "/srv/k.git", base: "main" };
    expect(requestOf(form(promotion)).promotion).toEqual(promotion);
    expect(requestOf(form({ ...promotion, region: "softmax" })).promotion, "a region is a part of a file that is named").toEqual(promotion);
    const part = { ...promotion, path: "kernels/all.cu", region: "softmax" };
    expect(requestOf(form(part)).promotion).toEqual(part);
  });
});

it("puts each problem to its field, and keeps what names none", () => {
  const problem = (file: string): Problem => ({ file, line: 0, column: 0, message: file, fix: "" });
  const sorted = byField(["models", "budget.trials", "models", "kernel.cu"].map(problem), ["models", "budget.trials"]);
  expect([...sorted].map(([field, found]) => [field, found.length])).toEqual([
    ["models", 2],
    ["budget.trials", 1],
    ["", 1],
  ]);
});

it("puts a problem with a part of a field to that field", () => {
  const problem = (file: string): Problem => ({ file, line: 0, column: 0, message: file, fix: "" });
  const paths = ["models[1].weight", "evolution.schedule.mode", "evolution", "budget.trials.many"];
  const sorted = byField(paths.map(problem), ["models", "evolution.schedule", "budget.trials"]);
  expect([...sorted].map(([field, found]) => [field, found.map(({ file }) => file)])).toEqual([
    ["models", ["models[1].weight"]],
    ["evolution.schedule", ["evolution.schedule.mode"]],
    ["", ["evolution"]],
    ["budget.trials", ["budget.trials.many"]],
  ]);
});

it("makes an unknown task a problem of its field", () => {
  const unknown = { status: 404, title: "Unknown task", detail: "no task is called so", problems: [] };
  expect(problemsOf(unknown).map(({ file, message }) => [file, message])).toEqual([["task", "no task is called so"]]);
  expect(problemsOf({ ...unknown, title: "Unknown run" })).toEqual([]);
});

it("has one key for one request", () => {
  let made = 0;
  const key = new RequestKey(() => `key ${(made += 1)}`);
  const request = requestOf(form({}));
  expect([key.of(request), key.of(requestOf(form({}))), key.of(requestOf(form({ trials: 3 })))]).toEqual(["key 1", "key 1", "key 2"]);
});

it("says settings in words", () => {
  const evolution = { generations: 1, temperature: 0.7, repairs: 3, sweep_percent: 25, strategy: "latin_hypercube" as const, first_configurations: [{ TILE: 32 }], bandit: false, faithful: true, style: "task_insights" as const, prompt_tokens: 9000 };
  expect(settings({ ...evolution, schedule: { mode: "steady", in_flight: 4 } })).toEqual([
    "steady with 4 open",
    "1 generation after the first",
    "temperature 0.7",
    "faithful to the published method",
    "style task insights",
    "prompts of 9,000 tokens at most",
  ]);
  expect(settings({ ...evolution, faithful: false, schedule: { mode: "generational" } })).toEqual(
    expect.arrayContaining(["1 configuration of the request first", "3 repairs in a row at most", "25\u00a0% of the timed candidates are configurations of the fastest, by latin hypercube", "models chosen by weight, operators in turn"]),
  );
  expect(settings({ ...evolution, faithful: false, sweep_percent: 0, bandit: true, schedule: { mode: "generational" } })).toEqual(
    expect.arrayContaining(["tunables of the fastest are not searched", "models and operators chosen by gain per dollar"]),
  );
});
