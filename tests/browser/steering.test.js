// Directions for a run: given on its page and on its candidates' pages, and listed.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits, SCHEMES, SIZES } from "./browser.js";
import { complaints, open, page, panel, service, setUp } from "./hooks.js";
import { assertSpeaks } from "./schema.js";
import { someInsights } from "./views.js";
import { BEST, candidateId, RACY } from "./world.js";

const HOSTILE = `<img src=x onerror="document.title='owned'">`;
const UNCHANGED = {
  trials: null,
  dollars: null,
  tokens: null,
  wall_seconds: null,
  device_seconds: null,
  device_dollars: null,
  floor_percent: null,
  trials_without_gain: null,
  gain_per_dollar: null,
};

setUp();

const steering = () => panel("Steering");
const press = (name) => steering().getByRole("button", { name, exact: true }).click();
const directions = () => steering().getByRole("list", { name: "Directions, newest first" }).getByRole("listitem");
const runPath = () => `/runs/${service.world.live}`;
const sent = () => service.directions.map(({ path, body }) => [path.split("/").at(-1), body]);
const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.innerText);

describe("on the page of a run", () => {
  const scenes = SCHEMES.flatMap((colorScheme) => Object.keys(SIZES).map((size) => ({ colorScheme, size })));
  for (const { colorScheme, size } of scenes) {
    it(`a hint is given, listed and withdrawn, ${colorScheme}, ${size}`, async () => {
      await open(runPath(), { colorScheme, size });
      await press("Hint…");
      await steering().getByLabel("Hint", { exact: true }).fill(`use cp.async ${HOSTILE}`);
      await steering().getByLabel("Number of candidates").fill("3");
      await press("Add the hint");
      await directions().first().waitFor();
      assert.match(await directions().first().innerText(), /1\. a caller without a token, .* from candidate #19 on[\s\S]*hint for 3 prompts: use cp\.async <img/);
      await panel("Events").getByText("hint for 3 prompts").waitFor();
      await press("Withdraw direction 1");
      await steering().getByText("withdrawn by direction 2").waitFor();
      await page.screenshot({ path: `screenshots/steering-${colorScheme}-${size}.png`, fullPage: true });
      assert.deepEqual(sent(), [["hint", { text: `use cp.async ${HOSTILE}`, prompts: 3 }], ["withdraw", { entry: 1 }]]);
      assertSpeaks("SteeringEntry", service.world.steering);
      await assertFits(page);
      assert.deepEqual(complaints, []);
    });
  }

  it("an idea is avoided and limits are raised", async () => {
    await open(runPath());
    await press("Avoid an idea…");
    await steering().getByLabel("Idea to avoid").fill("more unrolling");
    await press("Add the idea");
    await directions().first().waitFor();
    await press("Budget…");
    await steering().getByLabel("Trials", { exact: true }).fill("90");
    await steering().getByLabel("Running time, minutes").fill("1.5");
    await steering().getByLabel("End at, % of the floor").fill("90");
    assert.equal(await steering().getByLabel("End below, % per dollar").count(), 0, "the run asks no model");
    await page.keyboard.press("Enter");
    assert.equal(sent().length, 1, "Enter changes no limit");
    await press("Change the budget");
    await directions().nth(1).waitFor();
    assert.match(await directions().first().innerText(), /90 trials instead of 45 trials[\s\S]*, an end at 90 % of the floor instead of no limit/);
    await page.getByText("18 / 90 trials").waitFor();
    assert.match(await panel("Spend").innerText(), /Ends early\s+once the floor is 90 % of the champion's time/);
    assert.deepEqual(sent(), [["ban", { idea: "more unrolling", candidate: null, descendants: false }], ["budget", { ...UNCHANGED, trials: 90, wall_seconds: 90, floor_percent: 90 }]]);
    assertSpeaks("SteeringEntry", service.world.steering);
    assert.deepEqual(complaints, []);
  });

  it("a model is replaced", async () => {
    const price = { input: 1, output: 2 };
    service.world.models = ["small", "large"].map((name) => ({ name, api: "openai", host: "models.test", model: name, price, context_tokens: 100_000, max_output_tokens: 4000 }));
    service.world.runs[0].models = [{ name: "small", weight: 1 }];
    await open(runPath());
    await press("Model…");
    await steering().getByLabel("Replaced by").selectOption("large");
    await press("Replace the model");
    await directions().getByText("model small replaced by large").waitFor();
    assert.deepEqual(sent(), [["model", { from: "small", to: "large" }]]);
  });

  it("a problem stands at its field, which gets the focus; Escape closes the form", async () => {
    service.refusal = { type: "/problems/invalid-request", title: "Invalid request", status: 422, detail: "no", problems: [{ file: "budget.trials", line: 0, column: 0, message: "the run has used 12 already", fix: "give 12 or more" }] };
    await open(runPath());
    await press("Budget…");
    await steering().getByLabel("Trials", { exact: true }).fill("2");
    await press("Change the budget");
    await steering().locator('[data-field="budget.trials"]').getByText("the run has used 12 already – give 12 or more").waitFor();
    assert.equal(await focus(), "field-budget-trials");
    await page.keyboard.press("Escape");
    assert.equal(await steering().getByLabel("Trials", { exact: true }).count(), 0);
    assert.equal(await focus(), "Budget…");
  });

  it("the list stays while the service is away, and is read again afterwards", async () => {
    service.world.steering = [{ entry: 1, at: "2026-11-21T14:00:00Z", actor: "ada", since: 3, withdrawn_by: null, kind: "hint", text: "tile", prompts: null }];
    await open(runPath());
    await directions().getByText("hint: tile").waitFor();
    const { port } = new URL(service.origin);
    await service.stop();
    await press("Withdraw direction 1");
    await steering().getByText("The service does not answer.").first().waitFor();
    assert.equal(await directions().count(), 1);
    service.world.steering.push({ ...service.world.steering[0], entry: 2, text: "use shared memory" });
    await service.start(Number(port));
    await directions().getByText("use shared memory").waitFor();
  });
});

describe("on the page of a candidate", () => {
  const main = () => page.locator("main");
  const click = (name) => main().getByRole("button", { name, exact: true }).click();

  it("it is pinned, and the pin is withdrawn", async () => {
    await open(`/candidates/${candidateId(BEST)}`);
    await click("Pin");
    await page.getByText("pinned as a parent").waitFor();
    await page.screenshot({ path: "screenshots/candidate-pinned.png", fullPage: true });
    await click("Withdraw: pinned as a parent");
    await page.getByText("Withdrawn.").waitFor();
    assert.deepEqual(sent(), [["pin", { candidate: candidateId(BEST) }], ["withdraw", { entry: 1 }]]);
    assert.deepEqual(complaints, []);
  });

  it("it is banned with its descendants, by the keyboard and after a question", async () => {
    await open(`/candidates/${candidateId(RACY)}`);
    await main().getByRole("button", { name: "Ban…" }).press("Enter");
    await page.keyboard.press("Escape");
    assert.equal(await focus(), "Ban…");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Space");
    await page.keyboard.press("Tab");
    assert.deepEqual(sent(), []);
    await page.keyboard.press("Enter");
    await page.getByText("banned with its descendants").waitFor();
    assert.deepEqual(sent(), [["ban", { candidate: candidateId(RACY), descendants: true, idea: null }]]);
    assert.equal(await main().getByRole("button", { name: "Promote…" }).count(), 0, "it was not accepted");
  });

  it("it is evaluated again and promoted, each after a question", async () => {
    await open(`/candidates/${candidateId(BEST)}`);
    await click("Evaluate again…");
    assert.deepEqual(sent(), []);
    await click("Evaluate it again");
    await page.getByText("The evaluation was queued").waitFor();
    await click("Promote…");
    await page.getByRole("group", { name: "Confirm" }).screenshot({ path: "screenshots/candidate-promote.png" });
    await click("Confirm and commit");
    await page.getByText("The confirmation was queued.").waitFor();
    assert.deepEqual(sent(), [["reevaluate", { candidate: candidateId(BEST) }], ["promote", { candidate: candidateId(BEST) }]]);
  });

  it("its promotion in a paused run says that it waits", async () => {
    service.world.runs.find(({ id }) => id === service.world.live).state = { state: "paused", reason: "for the night" };
    await open(`/candidates/${candidateId(BEST)}`);
    await click("Promote…");
    await page.getByText("The run is paused, so this waits until it is resumed.").waitFor();
    await click("Confirm and commit");
    await page.getByText("The confirmation was queued. It waits: the run is paused (for the night); the confirmation begins when the run is resumed.").waitFor();
  });

  it("another run is started from it", async () => {
    await open(`/candidates/${candidateId(BEST)}`, { size: "phone" });
    await click("Fork…");
    await page.getByLabel("Name").fill("from the best");
    await page.getByLabel("Trials").fill("12");
    await page.keyboard.press("Enter");
    assert.deepEqual(sent(), [], "Enter starts no run");
    await page.getByRole("form", { name: "Fork" }).screenshot({ path: "screenshots/fork-phone.png" });
    await click("Start the run");
    const link = main().getByRole("status").getByRole("link");
    await link.waitFor();
    assert.equal(await link.getAttribute("href"), runPath());
    assert.deepEqual(sent(), [["fork", { candidate: candidateId(BEST), name: "from the best", method: "external", budget: { ...UNCHANGED, trials: 12 } }]]);
    await assertFits(page);
    assert.deepEqual(complaints, []);
  });
});

describe("on the page of insights", () => {
  const insight = (text) => page.locator("main li", { hasText: text });

  for (const size of Object.keys(SIZES)) {
    it(`an insight is corrected and left out of prompts, and both are undone, ${size}`, async () => {
      service.world.views = { insights: someInsights(service.world) };
      await open(`/insights?run=${service.world.live}`, { size });
      const win = insight("16-byte loads and stores");
      await win.getByRole("button", { name: "Correct…" }).click();
      await win.getByLabel("Corrected insight").fill(`aligned loads ${HOSTILE}`);
      await page.keyboard.press("Escape");
      assert.equal(await focus(), "Correct…");
      await page.keyboard.press("Enter");
      await win.getByLabel("Corrected insight").fill(`aligned loads ${HOSTILE}`);
      await win.getByRole("button", { name: "Correct it" }).click();
      await win.getByText("Corrected: aligned loads <img").waitFor();
      const trap = insight("rows in pairs");
      await trap.getByRole("button", { name: "Leave out" }).click();
      await trap.getByText("Left out of prompts").waitFor();
      await page.screenshot({ path: `screenshots/insights-edited-${size}.png`, fullPage: true });
      await win.getByRole("button", { name: "Undo" }).click();
      await win.getByRole("button", { name: "Undo" }).waitFor({ state: "detached" });
      await win.getByRole("button", { name: "Pin" }).click();
      await win.getByText("In every further prompt").waitFor();
      await win.getByRole("button", { name: "Unpin" }).click();
      await win.getByText("In every further prompt").waitFor({ state: "detached" });
      const of = (ordinal) => candidateId(ordinal);
      const text = `aligned loads ${HOSTILE}`;
      assert.deepEqual(sent(), [
        ["insight", { candidate: of(8), text }],
        ["insight", { candidate: of(16), text }],
        ["insight", { candidate: of(11), text: null }],
        ["withdraw", { entry: 1 }],
        ["withdraw", { entry: 2 }],
        ["hint", { text: "16-byte loads and stores", prompts: null }],
        ["withdraw", { entry: 6 }],
      ]);
      await assertFits(page);
      assert.deepEqual(complaints, []);
    });
  }
});
