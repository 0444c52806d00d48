// The list of runs, the sign-in, and what every page shows when the service is away, in a real browser against a stand-in.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits, SIZES } from "./browser.js";
import { complaints, inEveryLook, open, page, panel, service, setUp } from "./hooks.js";
import { accept, runId } from "./world.js";

setUp();

const run = () => `/runs/${service.world.live}`;

it("each run with its state, its best and its budget, in every look; and the devices", async () => {
  await open("/");
  await panel("Devices").waitFor();
  await page.getByText("1 worker").waitFor();
  await inEveryLook("runs", async () => {
    assert.equal(await page.locator("tbody tr").count(), 5);
    const live = await page.locator("tbody tr", { hasText: "row-softmax playbook" }).innerText();
    for (const text of ["running", "4.06×", "modelled", "10.2 µs", "18 / 45 trials", "row-softmax, Kernelwright emulated L4", "41 s of device time"]) assert.ok(live.includes(text), `${text} in ${live}`);
    await page.getByRole("img", { name: "Best so far: 1.00× to 4.06× over 19 candidates" }).waitFor();
    const measured = await page.locator("tbody tr", { hasText: "on the card" }).innerText();
    assert.ok(measured.includes("1.31×") && !measured.includes("modelled"), measured);
    const devices = await panel("Devices").innerText();
    assert.match(devices, /of ada\s+well\s+gets no job until [\d:]+: its last jobs all ended in faults\s+controls: 300, 3 screened as faster \(at most 2\.57\s%\), 0 promoted \(at most 1\.00\s%\), 1 unfinished/);
    assert.match(devices, /of bob\s+set aside: it does not keep what was written\s+controls: none yet/);
    assert.match(devices, /of cleo\s+well\s+controls: none: modelled times have no noise/);
  });
});

it("the list is sorted by a click on a column, and a link keeps order and filter", async () => {
  await open("/");
  const names = () => page.locator("tbody td.name > a").allInnerTexts();
  await page.getByRole("button", { name: "Best speedup" }).click();
  assert.deepEqual((await names()).slice(0, 3), ["row-softmax on the card", "attention-f16 playbook", "row-softmax playbook"], "measured ones first");
  await page.getByRole("button", { name: "Best speedup" }).click();
  await page.getByRole("searchbox").fill("softmax p");
  // The address follows the input in a task of its own.
  await page.waitForURL(/\?sort=-best&filter=softmax\+p$/);
  await page.reload();
  await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  assert.deepEqual(await names(), ["row-softmax playbook"]);
  assert.equal(await page.locator("th[aria-sort]").getAttribute("aria-sort"), "ascending");
});

describe("two runs chosen in the list", () => {
  const box = (name) => page.getByRole("checkbox", { name: `Compare ${name}`, exact: true });
  const form = () => page.getByRole("form", { name: "Runs to compare" });

  it("are compared, the first one at the left, in every look", async () => {
    await open("/");
    await box("first try").check();
    await form().getByText("Choose a second run.").waitFor();
    assert.ok(await form().getByRole("button", { name: "Compare" }).isDisabled());
    await box("row-softmax playbook").check();
    await form().getByText("first try beside row-softmax playbook").waitFor();
    assert.ok(await box("layernorm by hand").isDisabled(), "a comparison takes two");
    await inEveryLook("runs-chosen", async () => {
      const bar = await form().getByRole("button", { name: "Compare" }).boundingBox();
      const place = await box("first try").boundingBox();
      assert.ok(place.width >= 16 && bar.height >= 24, "both can be hit by a finger");
      const [content, room] = await form().locator(".list").evaluate((list) => [list.scrollWidth, list.clientWidth]);
      assert.ok(content <= room, `the list is ${content} px wide in ${room} px`);
    });
    await form().getByRole("button", { name: "Compare" }).click();
    await panel("Best so far").waitFor();
    assert.equal(new URL(page.url()).search, `?of=runs&left=${runId(1)}&right=${runId(5)}`);
    await page.goBack();
    await form().getByText("first try beside row-softmax playbook").waitFor();
    await form().getByRole("button", { name: "Clear" }).click();
    await form().getByRole("button", { name: "Clear" }).waitFor({ state: "detached" });
    assert.equal(new URL(page.url()).search, "");
    assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 0);
    assert.deepEqual(complaints, []);
  });

  it("stay chosen where a filter hides them, and in a link", async () => {
    await open(`/?chosen=${runId(1)}`);
    await form().getByText("first try", { exact: true }).first().waitFor();
    await page.getByRole("searchbox").fill("attention");
    await box("first try").waitFor({ state: "detached" });
    await box("attention-f16 playbook").check();
    await form().getByText("first try beside attention-f16 playbook").waitFor();
    await box("attention-f16 playbook").uncheck();
    await form().getByText("Choose a second run.").waitFor();
  });

  it("are in sight at the end of a long list", async () => {
    const [run] = service.world.runs;
    service.world.runs = Array.from({ length: 60 }, (_, number) => ({ ...run, id: runId(1000 + number), name: `run ${number}` }));
    await open("/");
    await box("run 0").check();
    const button = form().getByRole("button", { name: "Compare" });
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.setViewportSize(viewport);
      await box("run 0").scrollIntoViewIfNeeded();
      const { y, height } = await button.boundingBox();
      assert.ok(y > 0 && y + height <= viewport.height, `${size}: the button is at ${y} px`);
    }
  });

  it("are not offered while there is one run", async () => {
    service.world.runs.splice(1);
    await open("/");
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
    assert.equal(await page.getByRole("checkbox").count(), 0);
  });
});

it("three hundred runs come in pages, in every look", async () => {
  const [run] = service.world.runs;
  const words = "of many words ".repeat(6);
  service.world.runs = Array.from({ length: 300 }, (_, number) => ({ ...run, id: runId(1000 + number), name: `run ${number} ${number % 7 === 0 ? words : ""}`, trials: number, budget: { ...run.budget, trials: 400 } }));
  await open("/");
  await page.locator("tbody tr").nth(299).waitFor();
  await inEveryLook("runs-large", async () => {
    const badges = await page.locator("table").getByText("modelled", { exact: true }).filter({ visible: true }).count();
    const isPhone = page.viewportSize().width === SIZES.phone.width;
    assert.equal(badges, isPhone ? 300 : 1, "once in the head of the column, or in each row where there is no head");
  });
});

it("the list is filtered by name, task, method and state", async () => {
  await open("/");
  await page.getByRole("searchbox").fill("attention");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
  assert.match(await page.locator("tbody").innerText(), /attention-f16 playbook/);
  await page.getByRole("searchbox").fill("nothing like it");
  await page.getByText("No run matches").waitFor();
});

describe("tags", () => {
  const row = (text) => page.locator("tbody tr", { hasText: text });

  it("lead from a run of the list to all runs with the same one, in every look", async () => {
    await open("/");
    await row("attention-f16 playbook").getByRole("link", { name: "paper-2026" }).click();
    await page.getByText("Runs with the tag paper-2026").waitFor();
    assert.match(page.url(), /\?tag=paper-2026$/);
    assert.equal(await page.locator("tbody tr").count(), 1);
    await inEveryLook("tagged");
    await page.getByRole("link", { name: "All runs" }).click();
    await row("row-softmax on the card").waitFor();
    assert.match(await row("row-softmax on the card").innerText(), /1\.31×[\s\S]*1\.29× to 1\.33×/);
  });

  it("that no run has say so", async () => {
    await open("/?tag=nothing");
    await page.getByText("No run has this tag.").waitFor();
  });

  for (const size of ["desktop", "phone"]) {
    it(`are changed on the page of a run, and a wrong one is told at its field, ${size}`, async () => {
      await open(run(), { size });
      await page.getByRole("button", { name: "Add tags…" }).click();
      const field = page.getByLabel("Tags", { exact: true });
      await field.fill('good <b>bad</b>');
      await page.keyboard.press("Enter");
      await page.getByText('"<b>bad</b>" is no tag').waitFor();
      await page.screenshot({ path: `screenshots/tags-${size}.png` });
      await assertFits(page);
      await field.fill("worn, l4");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("link", { name: "worn" }).waitFor();
      assert.deepEqual(service.world.runs[0].tags, ["l4", "worn"]);
      await page.getByRole("button", { name: "Change tags…" }).click();
      assert.equal(await field.inputValue(), "l4 worn");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Change tags…" }).waitFor();
      await page.getByRole("link", { name: "l4" }).click();
      await row("attention-f16 playbook").waitFor();
      assert.equal(await page.locator("tbody tr").count(), 2);
    });
  }
});

describe("a service that goes away", () => {
  it("is missed at once, and the page continues by itself when it is back", async () => {
    await open(run());
    await panel("Events").getByText("live").waitFor();
    const { port } = service.server.address();
    await service.stop();
    await page.getByText("The service is not reachable.").waitFor();
    await page.screenshot({ path: "screenshots/gone.png" });
    service.emit(accept(service.world, 17, 5.1));
    await service.start(port);
    await page.getByText("The service is not reachable.").waitFor({ state: "detached" });
    await page.locator(".facts").getByText("5.10×").waitFor();
  });

  it("leaves a list that reads again when it is back", async () => {
    await open("/");
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
    const { port } = service.server.address();
    await service.stop();
    await page.getByText("The service is not reachable.").waitFor();
    service.world.runs[0].name = "renamed meanwhile";
    await service.start(port);
    await page.getByRole("link", { name: "renamed meanwhile" }).waitFor();
  });
});

it("says which worker gets no job, and until when", async () => {
  await open("/");
  const devices = panel("Devices");
  await devices.waitFor();
  assert.match(await devices.innerText(), /of ada\s+well\s+gets no job until [\d:]+: its last jobs all ended in faults/);
  assert.equal(await devices.getByText("gets no job").count(), 1);
  await page.screenshot({ path: "screenshots/suspended.png", fullPage: true });

  for (const worker of service.world.workers) worker.suspended_until = "2026-11-21T14:20:00Z";
  await page.goto(service.origin + run());
  await page.getByRole("status").getByText(/No worker gets jobs before [\d:]+/).waitFor();
});

describe("when there is little to show", () => {
  it("an empty list says how to begin", async () => {
    service.world.runs = [];
    await open("/");
    await page.getByText("No runs yet.").waitFor();
    assert.match(await page.locator("main").innerText(), /kernelwright run/);
    await inEveryLook("empty-runs");
  });

  it("an unknown address leads back", async () => {
    await open("/somewhere");
    await page.getByRole("link", { name: "All runs" }).click();
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  });

  it("a problem can be retried", async () => {
    service.problem = { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" };
    await open("/");
    await page.getByRole("alert").getByText("see the log for 4711").waitFor();
    await page.screenshot({ path: "screenshots/problem.png" });
    service.problem = null;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });
});

it("a browser signs in with a token, and is asked again when its session ends", async () => {
  service.token = "kw_right";
  await open("/runs/new");
  const field = page.getByLabel("Token of this service");
  await field.fill("kw_wrong");
  assert.equal(await field.getAttribute("type"), "password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("no token of this service has this secret").waitFor();
  await page.screenshot({ path: "screenshots/sign-in.png" });
  await assertFits(page);
  await field.fill("kw_right");
  await page.getByRole("button", { name: "Sign in" }).click();
  // The page that was wanted, not the first one.
  await page.getByRole("button", { name: "Launch" }).waitFor();
  assert.match(await page.getByRole("banner").innerText(), /1 worker[\s\S]*ada \(admin\)/);
  service.signedIn = false;
  await page.goto(`${service.origin}/`);
  await field.waitFor();
  await field.fill("kw_right");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  service.signedIn = false;
  // The page asks again by itself within seconds.
  await field.waitFor();
  await field.fill("kw_right");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Sign out" }).click();
  await field.waitFor();
  assert.equal(await page.getByRole("link", { name: "row-softmax playbook" }).count(), 0);
});
