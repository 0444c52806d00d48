// The form of a new run in a real browser, against a stand-in for the service.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits } from "./browser.js";
import { complaints, open, page, service, setUp } from "./hooks.js";
import { someInsights } from "./views.js";

setUp();

describe("a launch", () => {
  it("that got no answer is repeated under its key, a changed one under another", async () => {
    await open("/runs/new");
    await page.route("**/api/v1/runs", (route) => route.abort());
    const launch = page.getByRole("button", { name: "Launch", exact: true });
    const keys = [];
    for (const act of [() => launch.click(), () => page.keyboard.press("Control+Enter"), () => launch.click()]) {
      // The button has its name back when the answer before is there.
      await launch.waitFor();
      if (keys.length === 2) await page.getByLabel("Trials", { exact: true }).fill("7");
      const [request] = await Promise.all([page.waitForRequest("**/api/v1/runs"), act()]);
      keys.push(request.headers()["idempotency-key"]);
      await page.getByRole("alert").getByText("The service does not answer.").waitFor();
    }
    assert.equal(keys[0], keys[1], "the same request");
    assert.notEqual(keys[0], keys[2], "another request");
  });
});

it("a run is asked to end early, to sweep less and to learn which model to ask", async () => {
  service.world.models = [{ name: "fast", api: "openai", model: "fast-1", host: "models.example.com", price: { input: 1, output: 2 }, context_tokens: 128_000, max_output_tokens: 16_384, concurrency: 4 }];
  await open("/runs/new");
  await page.getByLabel("Method", { exact: true }).selectOption("full");
  await page.getByLabel("End at, % of the floor").fill("90");
  await page.getByLabel("End below, % per dollar").fill("2");
  await page.getByText("How models are asked").click();
  assert.equal(await page.getByLabel("Configurations, %").inputValue(), "25");
  await page.getByLabel("Configurations, %").fill("0");
  await page.getByLabel("Choice of configurations").selectOption("greedy");
  await page.getByLabel("Choose model and operator by what they gained").check();
  const [request] = await Promise.all([page.waitForRequest((made) => made.method() === "POST" && made.url().endsWith("/api/v1/runs")), page.keyboard.press("Control+Enter")]);
  const { budget, evolution } = request.postDataJSON();
  assert.deepEqual(budget, { trials: 45, floor_percent: 90, gain_per_dollar: 2 });
  assert.deepEqual([evolution.sweep_percent, evolution.strategy, evolution.bandit], [0, "greedy", true]);
});

it("a run begins with the lessons of another", async () => {
  service.world.models = [{ name: "fast", api: "openai", model: "fast-1", host: "models.example.com", price: { input: 1, output: 2 }, context_tokens: 128_000, max_output_tokens: 16_384, concurrency: 4 }];
  service.world.views = { insights: someInsights(service.world) };
  service.world.lessons = "What helped:\n- Wide loads. [1.50 times its parent's speed]\n";
  await open(`/insights?run=${service.world.live}`);
  await page.getByRole("link", { name: "New run with its lessons" }).click();
  const lessons = page.getByLabel("Lessons", { exact: true });
  await lessons.waitFor();
  assert.equal(await lessons.inputValue(), service.world.lessons);
  await assertFits(page);
  await page.screenshot({ path: "screenshots/lessons.png", fullPage: true });
  const sent = async () => {
    const [request] = await Promise.all([page.waitForRequest((made) => made.method() === "POST" && made.url().endsWith("/api/v1/runs")), page.keyboard.press("Control+Enter")]);
    return request.postDataJSON();
  };
  await lessons.fill("Use float4.\nNever shuffle.\n");
  service.refusal = { type: "/problems/refused", title: "Invalid request", status: 422, detail: "", problems: [{ file: "lessons", line: 0, column: 0, message: "the method free shows no lessons", fix: "" }] };
  assert.equal((await sent()).lessons, "Use float4.\nNever shuffle.\n");
  await page.locator('[data-field="lessons"]').getByText("shows no lessons").waitFor();
  // A method whose candidates nobody writes has none.
  await page.getByLabel("Method", { exact: true }).selectOption("playbook");
  assert.equal(await lessons.count(), 0);
  assert.equal("lessons" in (await sent()), false);
});

describe("a launch that the service refuses", () => {
  const refusal = (status, title, problems, detail = "") => ({ type: "/problems/refused", title, status, detail, problems });
  const problem = (file, message) => ({ file, line: 0, column: 0, message, fix: "" });
  const field = (name) => page.locator(`[data-field="${name}"]`);

  it("has each problem at its field and only the rest above the form", async () => {
    await open("/runs/new");
    service.refusal = refusal(422, "Invalid request", [
      problem("budget.trials", "a whole number from 1 is needed"),
      problem("promotion.repository", "there is no such repository"),
      problem("promotion.base", "there is no such branch"),
    ]);
    await page.getByRole("button", { name: "Launch", exact: true }).click();
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await field("budget.trials").innerText(), /a whole number from 1 is needed/);
    assert.match(await field("promotion.repository").innerText(), /there is no such repository/);
    // The form has no field for the base while no repository is named.
    const above = await alert.innerText();
    assert.match(above, /there is no such branch/);
    assert.doesNotMatch(above, /whole number|no such repository/);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "field-budget-trials");
    await page.screenshot({ path: "screenshots/refused.png", fullPage: true });
    assert.deepEqual(complaints.filter((text) => !text.includes("422")), []);
  });

  it("marks the field of a value that the service cannot read, and of a task that is gone", async () => {
    await open("/runs/new");
    const launch = page.getByRole("button", { name: "Launch", exact: true });
    service.refusal = refusal(400, "Malformed request", [problem("budget.trials", "a whole number from 0 to 4294967295 is needed")]);
    await launch.click();
    await field("budget.trials").getByText("a whole number from 0 to 4294967295").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /See the marked fields/);
    service.refusal = refusal(404, "Unknown task", [], 'no task "row-softmax" is stored here');
    await launch.click();
    await field("task").getByText("no task").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /See the marked fields/);
  });
});
describe("when something is missing", () => {
  it("a form without a model says how to configure one, and finds it then", async () => {
    await open("/runs/new");
    await page.getByLabel("Method", { exact: true }).selectOption("insight");
    await page.getByText("No model is configured.").waitFor();
    assert.match(await page.locator("main").innerText(), /models\.toml[\s\S]*kernelwright model check fast/);
    await page.screenshot({ path: "screenshots/no-model.png", fullPage: true });
    service.world.models = [{ name: "fast", api: "openai", model: "fast-1", host: "models.example.com", price: null, context_tokens: 128_000, max_output_tokens: 16_384, concurrency: 4 }];
    await page.getByRole("button", { name: "Look again" }).click();
    await page.getByRole("checkbox", { name: "fast" }).check();
    await page.getByText("only tokens can be limited").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("a form without a task says how to store one", async () => {
    service.world.tasks = [];
    await open("/runs/new");
    await page.getByText("No task is stored yet.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Launch" }).count(), 0);
  });
});
