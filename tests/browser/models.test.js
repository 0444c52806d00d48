// A run that asks a model, from the form to its recording, on the service itself. The model is a
// recording with replies written by hand; the kernels are compiled, executed and judged.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";

import { SCHEMES } from "./browser.js";
import { complaints, inEveryLook, page, panel, prepare, setUp } from "./hooks.js";
import { Kernelwright } from "./kernelwright.js";
import { HOSTILE, recording, TASK } from "./recording.js";

const MODELS = `[models.hand]
api = "cassette"
file = "replies.jsonl"
strict = false

[models.unpriced]
api = "cassette"
file = "unpriced.jsonl"
`;
const PRICE = { input: 0.25, cached: 0.025, output: 2 };
/** Limit of the run's duration in milliseconds: ten kernels on the emulated device. */
const RUN_TAKES = 240_000;

let service;
/** Path of the run's page. */
let run;

setUp({ standIn: false });

before(async () => {
  service = await Kernelwright.start({ "models.toml": MODELS, "replies.jsonl": recording(PRICE), "unpriced.jsonl": recording() });
  await service.upload(TASK);
});

after(() => service?.stop());

async function open(path, options) {
  await prepare({ now: null, ...options });
  await page.goto(service.origin + path);
}

const button = (name) => page.getByRole("button", { name, exact: true });

async function candidate(ordinal) {
  const { nodes } = await service.get(`${run}/lineage`);
  return nodes.find((node) => node.ordinal === ordinal);
}

async function crossover() {
  const { nodes } = await service.get(`${run}/lineage`);
  return nodes.find((node) => node.operator.operator === "crossover");
}

describe("the form", () => {
  it("shows what the run would say and cost, and puts problems beside their fields", async () => {
    await open("/runs/new");
    await page.getByRole("checkbox", { name: "hand" }).waitFor();
    await button("Preview").click();
    const preview = panel("Preview");
    await preview.getByText("Cost, upper estimate").waitFor();
    assert.match(await preview.innerText(), /\$\d+\.\d\d[\s\S]*135 at most[\s\S]*Not exact: the baseline was never evaluated here/);
    assert.match(await preview.locator("pre:visible").innerText(), /extern "C" __global__ void softmax/);

    await page.getByLabel("Trials", { exact: true }).fill("0");
    await preview.getByText("of what was filled in before").waitFor();
    await button("Launch").click();
    await page.getByText("a run without a trial tries nothing").waitFor();
    const wrong = await page.evaluate(() => [document.activeElement.id, document.activeElement.getAttribute("aria-invalid")]);
    assert.deepEqual(wrong, ["field-budget-trials", "true"]);
    await page.screenshot({ path: "screenshots/form-problem.png", fullPage: true });
    // The browser itself remarks that the service refused.
    complaints.splice(0);
  });

  it("puts numbers that cannot be sent beside their fields", async () => {
    await open("/runs/new");
    for (const [field, value, message] of [["Trials", "-3", "give a number from 0"], ["Trials", "2.5", "give a whole number"]]) {
      await page.getByLabel(field, { exact: true }).fill(value);
      await button("Launch").click();
      await page.locator('[data-field="budget.trials"]').getByText(message).waitFor();
      await panel("Estimate").getByText("For a whole number of trials").waitFor();
    }
    assert.equal(await page.evaluate(() => document.activeElement.id), "field-budget-trials");
    assert.deepEqual(complaints, [], "nothing was asked of the service");
  });

  it("unfolds what a problem names", async () => {
    await open("/runs/new");
    await page.getByText("How models are asked").click();
    await page.getByLabel("Temperature").fill("3");
    await page.getByText("How models are asked").click();
    await button("Preview").click();
    await page.getByText("temperatures lie from 0 to 2").waitFor();
  });

  it("weighs models against each other, and a budget in dollars needs their price", async () => {
    await open("/runs/new");
    await page.getByRole("checkbox", { name: "unpriced" }).check();
    await page.getByLabel("Weight of unpriced").fill("3");
    await page.getByLabel("Dollars", { exact: true }).fill("1");
    await button("Preview").click();
    await page.getByText('"unpriced" has no price, so dollars cannot be kept to').waitFor();
    await page.screenshot({ path: "screenshots/form-models.png", fullPage: true });
  });

  it("launches the run from the keyboard", async () => {
    await open("/runs/new");
    await page.getByLabel("Method", { exact: true }).selectOption("full");
    await page.getByLabel("Name", { exact: true }).fill("by hand");
    await page.getByLabel("Trials", { exact: true }).fill("20");
    await page.getByLabel("Dollars", { exact: true }).fill("1");
    await page.getByText("How models are asked").click();
    await page.getByLabel("Generations", { exact: true }).fill("1");
    await page.getByLabel("Repairs", { exact: true }).fill("1");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("heading", { name: "by hand" }).waitFor();
    run = new URL(page.url()).pathname;
    // The recording holds nothing for the last repairs: the run pauses and says so.
    await page.getByText("it holds no reply for turn 0").first().waitFor({ timeout: RUN_TAKES });
    await page.locator("a[data-candidate][aria-label^='#8'][aria-label*='duplicate']").waitFor();
    assert.deepEqual(complaints, []);
  });
});

describe("each page, in light and dark, on a desk and on a phone", () => {
  const pages = {
    "form": {
      path: () => "/runs/new",
      async ready() {
        await page.getByRole("checkbox", { name: "hand" }).waitFor();
        await page.getByText("How models are asked").click();
        await button("Preview").click();
        await panel("Preview").getByText("word for word").waitFor();
      },
      async check() {
        assert.match(await panel("Preview").locator("pre:visible").innerText(), /# The best kernel so far[\s\S]*modelled/);
      },
    },
    "asked-runs": {
      path: () => "/",
      ready: () => page.getByRole("link", { name: "by hand" }).waitFor(),
      async check() {
        assert.match(await page.locator("tbody tr").innerText(), /\$0\.\d+\s+[\d.]+ k tokens/);
      },
    },
    "asked-run": {
      path: () => run,
      ready: () => page.locator("a[data-candidate][aria-label^='#6']").waitFor(),
      async check() {
        const names = await page.locator("a[data-candidate]").evaluateAll((nodes) => nodes.map((node) => node.getAttribute("aria-label")));
        const wanted = [/^#0 .*baseline, accepted/, /^#3 .*init, data race/, /^#4 .*init, malformed/, /^#6 .*repair, accepted/, /^#1[23] .*no answer from hand: .*holds no reply/];
        // On a phone only a part of the graph is in sight, and only that is drawn.
        for (const name of page.viewportSize().width > 1000 ? wanted : [wanted[3]]) assert.ok(names.some((found) => name.test(found)), `${name} in ${names}`);
        const spend = await panel("Spend").innerText();
        assert.match(spend, /Trials\s+[7-9] of 20[\s\S]*Tokens\s+[\d,]+ no limit, up to [\d,]+ promised to calls under way[\s\S]*Dollars\s+\$0\.\d+ of \$1/);
        assert.match(spend, /Running time\s+\d+ s no limit[\s\S]*Device time\s+[\d.]+ s no limit[\s\S]*Model\s+hand\s[\s\S]*1 generation after the first[\s\S]*1 repair in a row at most/);
        await panel("Insights").getByRole("row").nth(1).waitFor();
        const [table, room] = await panel("Insights").locator(".scroll").evaluate((scroll) => [scroll.scrollWidth, scroll.clientWidth]);
        assert.ok(table <= room, `the insights are ${table} px wide in ${room} px`);
        const told = await panel("Insights").locator("tbody tr").allInnerTexts();
        assert.ok(told.some((row) => /^#\d \S[\s\S]*\d×[\s\S]*last to #\d[\s\S]*\d of \d/.test(row)), `a thought that was shown, with what became of it: ${told}`);
        assert.ok(told.some((row) => /does not compile/.test(row)), "a thought that failed is told, too");
        assert.match(await page.locator(".paused").innerText(), /Paused\. model hand does not answer/);
        assert.equal(await button("Resume").count(), 1);
        assert.match(await panel("Events").innerText(), /hand did not answer[\s\S]*#4[^\n]*\s+hand answered, [\d,]+ tokens, \$[\d.]+; unusable: the reply has no kernel/);
      },
    },
    "conversation": {
      path: async () => `/candidates/${(await candidate(4)).id}`,
      async ready() {
        const call = page.getByRole("article", { name: "Call 2" });
        await call.getByText("Prompt", { exact: true }).click();
        await call.getByText("the model before").click();
      },
      async check() {
        const [first, second] = [page.getByRole("article", { name: "Call 1" }), page.getByRole("article", { name: "Call 2" })];
        assert.equal(await first.getByLabel("Reply, word for word").textContent(), `I cannot say anything about ${HOSTILE} without a profile.`);
        assert.match(await page.title(), /^#4 /, "nothing in a reply is executed");
        assert.match(await first.innerText(), /4,000 tokens, 3,600 from the cache[\s\S]*\$0\.\d+[\s\S]*best #0[\s\S]*Holds no candidate: the reply has no kernel/);
        assert.ok((await second.locator("pre:visible").allTextContents()).some((text) => text.includes(HOSTILE)), "the conversation goes on");
        assert.match(await panel("Source").innerText(), /No kernel came of it/);
      },
    },
    "asked-candidate": {
      path: async () => `/candidates/${(await crossover()).id}`,
      ready: () => panel("Conversation").waitFor(),
      async check() {
        const call = await page.getByRole("article", { name: "Call 1" }).innerText();
        assert.match(call, /template full_crossover\/standard [0-9a-f]{12}[\s\S]*Shown:\s+best #\d\s+parents? #\d+[\s\S]*insights of #\d/);
        const { children, parents } = await service.get(`/candidates/${(await crossover()).id}`);
        assert.equal(children.length, 0);
        assert.equal(parents.length, 2);
      },
    },
  };
  for (const [name, { path, ready, check }] of Object.entries(pages)) {
    it(name, async () => {
      await open(await path());
      await ready();
      await inEveryLook(name, check);
    });
  }
});

it("the recording is downloaded with every call", async () => {
  await open(run);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download the recording" }).click()]);
  assert.equal(download.suggestedFilename(), `${run.split("/").at(-1)}.jsonl`);
  const [header, ...calls] = (await readFile(await download.path(), "utf8")).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(header.origin, "recorded");
  assert.deepEqual(calls.map(({ ordinal, turn }) => `${ordinal}.${turn}`).sort(), ["1.0", "2.0", "3.0", "4.0", "4.1", "5.0", "6.0", "7.0", "8.0", "9.0", "10.0", "11.0"].sort());
  assert.ok(calls.some(({ reply }) => reply.text.includes(HOSTILE)));
});

it("a run is exported as a report that stands alone", async () => {
  await open(run);
  await page.getByText("Export", { exact: true }).click();
  const link = page.getByRole("link", { name: /^Report/ });
  await page.screenshot({ path: "screenshots/export-menu.png" });
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  assert.equal(download.suggestedFilename(), `run-${run.split("/").at(-1)}.html`);
  const file = join(service.folder, "report.html");
  await download.saveAs(file);
  // Shown without a policy of the service, as from a mail.
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  await page.getByRole("heading", { name: "Winner" }).waitFor();
  assert.deepEqual(asked, [pathToFileURL(file).href]);
  assert.match(await page.locator("p", { has: page.locator(".big") }).innerText(), /^\d+\.\d\dx modelled the baseline's speed/);
  assert.equal(await page.getByRole("img", { name: /^Best speedup/ }).count(), 1);
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `screenshots/report-${colorScheme}.png`, fullPage: true });
  }
  assert.deepEqual(complaints, []);
});

it("a paused run is resumed, and pauses again for the same reason", async () => {
  await open(run);
  await button("Resume").click();
  await panel("Events").getByText("run running").nth(1).waitFor();
  await button("Resume").waitFor();
  await page.getByText("it holds no reply for turn 0").first().waitFor();
});

it("a hint is given to the run and listed", async () => {
  await open(run);
  await button("Hint…").click();
  await panel("Steering").getByLabel("Hint", { exact: true }).fill("try warp shuffles");
  await button("Add the hint").click();
  await panel("Steering").getByText("hint: try warp shuffles").waitFor();
  assert.deepEqual((await service.get(`${run}/steering`)).map(({ entry, kind }) => [entry, kind]), [[1, "hint"]]);
  assert.deepEqual(complaints, []);
});

it("a run from the form ends with its champion in git", async () => {
  await open("/runs/new");
  await page.getByLabel("Method", { exact: true }).selectOption("playbook");
  await page.getByLabel("Name", { exact: true }).fill("to git");
  await page.getByLabel("Trials", { exact: true }).fill("1");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: "to git" }).waitFor();
  const { pathname } = new URL(page.url());
  await page.getByText("Champion committed").waitFor({ timeout: RUN_TAKES });
  await page.screenshot({ path: "screenshots/committed.png", fullPage: true });
  const { best, promotion } = await service.get(pathname);
  const git = (...words) => execFileSync("git", ["--git-dir", promotion.repository, ...words], { encoding: "utf8" });
  assert.equal(git("rev-parse", promotion.branch).trim(), promotion.state.commit);
  const files = git("ls-tree", "-r", "--name-only", promotion.branch).trim().split("\n");
  const { source } = await service.get(`/candidates/${best.candidate}`);
  assert.ok(files.some((file) => git("show", `${promotion.branch}:${file}`) === source), `the champion's source is one of ${files}`);
  await page.locator("a.big").click();
  await panel("Difference to the parent").locator("tr.added").first().waitFor();
  await panel("Source").getByRole("img", { name: /^Line \d+: [\d,]+ warp instructions/ }).first().waitFor();
  await page.screenshot({ path: "screenshots/champion.png", fullPage: true });
  assert.deepEqual(complaints, []);
  await button("Promote…").click();
  await button("Confirm and commit").click();
  await page.getByRole("alert").getByText("already, which is committed").waitFor();
});

it("a submitted kernel is promoted from its page, and git has it", async () => {
  await open("/runs/new");
  await page.getByLabel("Method", { exact: true }).selectOption("external");
  await page.getByLabel("Name", { exact: true }).fill("by people");
  await page.getByLabel("Trials", { exact: true }).fill("5");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: "by people" }).waitFor();
  const { pathname } = new URL(page.url());
  const source = await readFile(new URL("playbook/02-row-in-registers.cu", TASK), "utf8");
  const { ordinal } = await service.post(`${pathname}/candidates`, { source });
  const link = page.locator(`a[data-candidate][aria-label^="#${ordinal} "][aria-label*="accepted"]`);
  await link.waitFor({ timeout: RUN_TAKES });
  assert.equal((await service.get(pathname)).promotion, null, "nothing is promoted while the run goes on");
  await link.focus();
  await page.keyboard.press("Enter");
  await panel("Difference to the parent").locator("tr.added").first().waitFor();
  await button("Promote…").click();
  await button("Confirm and commit").click();
  await page.getByText("The confirmation was queued.").waitFor();
  await page.goto(`${service.origin}/promotions`);
  const entry = page.getByRole("listitem").filter({ hasText: "by people" });
  await entry.getByText("commit", { exact: false }).filter({ hasText: "on branch" }).waitFor({ timeout: RUN_TAKES });
  await page.screenshot({ path: "screenshots/promoted-from-page.png", fullPage: true });
  const { promotion } = await service.get(pathname);
  const git = (...words) => execFileSync("git", ["--git-dir", promotion.repository, ...words], { encoding: "utf8" });
  const shown = await entry.innerText();
  assert.ok(shown.includes(git("rev-parse", promotion.branch).trim()), `the branch's tip is shown: ${shown}`);
  assert.ok(git("log", "-1", "--format=%B", promotion.branch).includes(promotion.candidate), "the commit names the candidate");
  const files = git("ls-tree", "-r", "--name-only", promotion.branch).trim().split("\n");
  assert.ok(files.some((file) => git("show", `${promotion.branch}:${file}`) === source), `the kernel is one of ${files}`);
  assert.deepEqual(complaints, []);
});
