// What axe-core finds on every page, in light and dark, on a desk and on a phone: contrast of texts as they are drawn,
// names of controls, roles and headings, by WCAG 2.2 AA.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, it } from "node:test";

import { SCHEMES, SIZES } from "./browser.js";
import { drawn, open, page, panel, service, setUp } from "./hooks.js";
import { promotions, someInsights, taskName } from "./views.js";
import { BEST, candidateId, RACY, runId } from "./world.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];

setUp();

/** The rules that the page breaks, each with the elements that break it. */
async function violations() {
  await page.evaluate(AXE);
  return page.evaluate(async (rules) => {
    const { violations } = await globalThis.axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, any }) => `${html.slice(0, 160)} (${any.map(({ message }) => message).join("; ")})`).join("\n    ")}`);
  }, RULES);
}

const PAGES = {
  runs: { path: () => "/", ready: () => panel("Devices").waitFor() },
  "chosen runs": { path: () => `/?chosen=${runId(5)},${runId(1)}`, ready: () => page.getByText("row-softmax playbook beside first try").waitFor() },
  "new run": { path: () => `/runs/new?task=${taskName}`, ready: () => page.getByText("No past runs.").waitFor() },
  run: { path: () => `/runs/${service.world.live}`, ready: () => page.getByRole("group", { name: /^Lineage of/ }).waitFor() },
  "accepted candidate": { path: () => `/candidates/${candidateId(BEST)}`, ready: () => panel("Times").waitFor() },
  "rejected candidate": { path: () => `/candidates/${candidateId(RACY)}`, ready: () => panel("Source").waitFor() },
  tasks: { path: () => "/tasks", ready: () => page.getByRole("link", { name: taskName }).first().waitFor() },
  task: { path: () => `/tasks/${taskName}`, ready: () => panel("Tolerance").waitFor() },
  leaderboards: { path: () => "/leaderboards", ready: () => panel(taskName).waitFor() },
  fleet: { path: () => "/fleet", ready: () => page.locator("tbody tr", { hasText: "cleo" }).waitFor() },
  failures: { path: () => "/failures", ready: () => page.getByRole("article").first().waitFor() },
  insights: { path: () => "/insights", ready: () => panel("Wins").waitFor() },
  promotions: { path: () => "/promotions", ready: () => page.getByRole("listitem").first().waitFor() },
  "compared candidates": { path: () => `/compare?left=${candidateId(1)}&right=${candidateId(BEST)}`, ready: () => panel("Times").waitFor() },
  "compared runs": { path: () => `/compare?of=runs&left=${runId(5)}&right=${runId(1)}`, ready: () => panel("Best so far").waitFor() },
};

describe("no page breaks a rule of WCAG 2.2 AA", () => {
  for (const [name, { path, ready }] of Object.entries(PAGES)) {
    it(name, async () => {
      service.world.views = { insights: someInsights(service.world), promotions: promotions(service.world) };
      await open(path());
      await ready();
      const found = {};
      for (const colorScheme of SCHEMES) {
        for (const viewport of Object.values(SIZES)) {
          await page.emulateMedia({ colorScheme });
          await page.setViewportSize(viewport);
          await drawn();
          const broken = await violations();
          if (broken.length > 0) found[`${colorScheme}, ${viewport.width} px`] = broken;
        }
      }
      assert.deepEqual(found, {});
    });
  }
});

it("a text without contrast is found", async () => {
  await open("/tasks");
  await page.getByRole("heading", { name: "Tasks" }).waitFor();
  await page.evaluate(() => document.querySelector("h1").style.setProperty("color", "#eeeeee"));
  assert.ok((await violations()).some((found) => found.startsWith("color-contrast")));
});
