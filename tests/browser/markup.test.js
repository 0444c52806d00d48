// Texts of models, people and tasks are shown as text: markup in any of them makes no element and runs nothing.

import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";

import { page, prepare, service, setUp } from "./hooks.js";
import { BEST, candidateId, RACY, settled, timedInTurn } from "./world.js";

const ATTACK = `<img src=x onerror="window.attacked=1"><script>window.attacked=1</script><svg onload="window.attacked=1"></svg>"'><b id=attack>`;

// Before the page is closed, because it may ask again while it is.
afterEach(() => page?.unrouteAll({ behavior: "ignoreErrors" }));
setUp();

/** Puts the attack into every text of a value but those that name things or are one of a closed list. */
function spoiled(value, name = "") {
  const CLOSED = /^(id|run|candidate|parents|children|of|state|kind|verdict|operator|stage|outcome|cache|method|task_version|digest|.*_digest|evidence|incumbent|at|.*_at|unmet_gates|uuid|speaker|change|bound|mode|style|scope|severity|status|distribution|family|by_kind|found_on|enforce|subject|schedule|commit|next)$/;
  if (typeof value === "string") return CLOSED.test(name) ? value : `${value} ${ATTACK}`;
  if (Array.isArray(value)) return value.map((entry) => spoiled(entry, name));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, spoiled(entry, key)]));
}

async function open(path) {
  const made = service.world;
  await prepare();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => errors.push(dialog.message()));
  await page.route("**/api/v1/**", async (route) => {
    if (route.request().url().includes("/events")) return route.continue();
    const response = await route.fetch();
    let json = await response.json();
    if (route.request().url().includes(`/candidates/${candidateId(BEST)}`)) json = timedInTurn(json, { kind: "level", screening: settled(0.0001, "not_faster") });
    await route.fulfill({ response, json: spoiled(json) });
  });
  for (const event of made.events) event.what = spoiled(event.what);
  await page.goto(service.origin + path(made));
  return errors;
}

async function assertHarmless(errors) {
  assert.equal(await page.evaluate(() => window.attacked), undefined, "nothing ran");
  assert.equal(await page.locator("#attack, main img, main script").count(), 0, "nothing became an element");
  assert.deepEqual(errors, []);
}

describe("markup in every text of the service", () => {
  it("is text in the list of runs", async () => {
    const errors = await open(() => "/");
    await page.getByText("<img src=x").first().waitFor();
    await assertHarmless(errors);
  });

  it("is text on the page of a run", async () => {
    const errors = await open((made) => `/runs/${made.live}`);
    await page.locator("h1", { hasText: "<img src=x" }).waitFor();
    await page.locator("tr.row").first().waitFor();
    assert.deepEqual(errors, []);
    await page.getByRole("region", { name: "Candidates", exact: true }).locator("tr.row").getByText("<script>").first().waitFor();
    await page.getByRole("region", { name: "Events", exact: true }).getByText("<script>").first().waitFor();
    await page.locator("a[data-candidate]").first().focus();
    await page.locator(".frame .card").first().waitFor();
    await page.screenshot({ path: "screenshots/markup.png", fullPage: true });
    await assertHarmless(errors);
  });

  for (const ordinal of [BEST, RACY]) {
    it(`is text on the page of candidate ${ordinal}`, async () => {
      const errors = await open(() => `/candidates/${candidateId(ordinal)}`);
      await page.getByRole("region", { name: "Source", exact: true }).getByText("<script>").first().waitFor();
      await assertHarmless(errors);
    });
  }
});
