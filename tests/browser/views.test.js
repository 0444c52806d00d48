// The pages beside runs and candidates, in a real browser, against the stand-in: each with nothing, with
// a little and with much to show, and with texts that want to be markup.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";

import { assertFits, launchBrowser, newPage, SCHEMES, SIZES } from "./browser.js";
import { assertSpeaks } from "./schema.js";
import { Service } from "./service.js";
import { boards, clusters, compareCandidates, compareRuns, definition, estimate, fleet, someInsights, taskName } from "./views.js";
import { BEST, candidateId, NOW, RACY, runId, world } from "./world.js";

const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

let browser;
let service;
let context;
let page;
let complaints;

before(async () => {
  browser = await launchBrowser();
});

after(() => browser?.close());

beforeEach(async () => {
  service = new Service(world());
  await service.start();
});

afterEach(async () => {
  await context?.close();
  await service.stop();
});

async function open(path, options) {
  ({ context, page, complaints } = await newPage(browser, options));
  await page.clock.setFixedTime(NOW);
  await page.goto(service.origin + path);
}

const panel = (name) => page.getByRole("region", { name, exact: true });
const row = (text) => page.locator("tbody tr", { hasText: text });
const main = () => page.locator("main").innerText();

/** A world without runs, candidates, tasks or workers. */
function empty() {
  return { ...world(), runs: [], nodes: [], events: [], tasks: [], workers: [], devices: { devices: [], poison: [] } };
}

it("the stand-in's views are the API's", () => {
  const made = world();
  const url = (query) => new URL(`http://x/api/v1/?${query}`);
  assertSpeaks("TaskDefinition", [definition(made, made.tasks[0])]);
  assertSpeaks("Leaderboard", boards(made));
  assertSpeaks("Fleet", [fleet(made)]);
  assertSpeaks("FailureCluster", clusters(made));
  assertSpeaks("Insight", someInsights(made));
  assertSpeaks("RunEstimate", [estimate(0), estimate(3)]);
  assertSpeaks("CandidateComparison", [compareCandidates(made, url(`left=${candidateId(1)}&right=${candidateId(BEST)}`)).body, compareCandidates(made, url(`left=${candidateId(RACY)}&right=${candidateId(BEST)}`)).body]);
  assertSpeaks("RunComparison", [compareRuns(made, url(`left=${runId(5)}&right=${runId(4)}`)).body]);
});

describe("each page, in light and dark, on a desk and on a phone", () => {
  const pages = {
    tasks: {
      path: "/tasks",
      ready: () => row(taskName).waitFor(),
      async check() {
        assert.match(await row(taskName).innerText(), /row-softmax[\s\S]*8\.21 µs[\s\S]*1\.31× of its baseline, NVIDIA L4[\s\S]*|10\.2 µs/);
        assert.equal(await row(taskName).getByText("modelled").count(), 1);
      },
    },
    task: {
      path: `/tasks/${taskName}`,
      ready: () => panel("Tolerance").waitFor(),
      async check() {
        const text = await main();
        for (const wanted of ["keep the row in registers", "1.40× to 1.90×", "multiples of 8", "at most 128 registers", "opens no later phase", "clock reads", "Rows are independent."]) assert.ok(text.includes(wanted), wanted);
        assert.match(await panel("Leaderboard").innerText(), /Kernelwright emulated L4[\s\S]*NVIDIA L4\s+measured/);
        assert.match(await panel("Runs").innerText(), /row-softmax playbook/);
      },
    },
    leaderboards: {
      path: "/leaderboards",
      ready: () => panel(taskName).waitFor(),
      async check() {
        assert.equal(await panel(taskName).locator("table").count(), 2, "measured and modelled times have boards of their own");
        assert.match(await panel("attention-f16").innerText(), /split the keys/);
      },
    },
    fleet: {
      path: "/fleet",
      ready: () => row("cleo").waitFor(),
      async check() {
        assert.match(await row("ada").innerText(), /suspended[\s\S]*until[\s\S]*3 faults since its last verdict/);
        assert.match(await row("bob").innerText(), /unwell[\s\S]*protocol 10, the service speaks 11[\s\S]*set aside: it does not keep what was written/);
        assert.match(await row("cleo").innerText(), /busy[\s\S]*#17 two rows a warp[\s\S]*verify/);
      },
    },
    failures: {
      path: "/failures",
      ready: () => page.getByRole("article").first().waitFor(),
      async check() {
        assert.equal(await page.getByRole("article").count(), 5);
        const first = await page.getByRole("article").first().innerText();
        assert.match(first, /incorrect output[\s\S]*the relative L2 error is above the limit[\s\S]*2 33 %[\s\S]*sweep 100 %/);
        assert.equal(await page.getByRole("link", { name: "#11 rows in pairs" }).getAttribute("href"), `/candidates/${candidateId(RACY)}#L39`);
      },
    },
    insights: {
      path: "/insights",
      before: () => (service.world.views = { insights: someInsights(service.world) }),
      ready: () => panel("Wins").waitFor(),
      async check() {
        assert.match(await panel("Wins").innerText(), /16-byte loads and stores\s+shown to 6\s+2 of 5 readers won\s+readers at 1\.31× of others \(#8\)[\s\S]*#8 2\.64×\s+#16 out of bounds\s+Contradicted: 1 accepted, 1 failed/);
        assert.match(await panel("Traps").innerText(), /rows in pairs/);
        assert.match(await panel("Open").innerText(), /eight warps a block\s+never shown/);
      },
    },
    compare: {
      path: `/compare?left=${candidateId(1)}&right=${candidateId(BEST)}`,
      ready: () => panel("Times").waitFor(),
      async check() {
        const text = await main();
        assert.match(text, /The right one is 2\.36× as fast\s+modelled/);
        assert.match(await panel("Launches").innerText(), /occupancy 75 %, limited by registers/);
        assert.match(await panel("Resources").innerText(), /softmax\s+left\s+40/);
      },
    },
    "compare-runs": {
      path: `/compare?of=runs&left=${runId(5)}&right=${runId(1)}`,
      ready: () => panel("Best so far").waitFor(),
      async check() {
        assert.match(await panel("Side by side").innerText(), /row-softmax playbook[\s\S]*first try[\s\S]*Method\s+playbook\s+playbook/);
        assert.match(await panel("Best so far").innerText(), /At 3 trials, which both have made/);
      },
    },
    "new-run": {
      path: `/runs/new?task=${taskName}`,
      ready: () => page.getByText("No past runs.").waitFor(),
      async check() {
        assert.match(await panel("Estimate").innerText(), /No ended run of this task by this method/);
      },
    },
  };
  for (const colorScheme of SCHEMES) {
    for (const size of Object.keys(SIZES)) {
      for (const [name, { path, before, ready, check }] of Object.entries(pages)) {
        it(`${name}, ${colorScheme}, ${size}`, async () => {
          before?.();
          await open(path, { colorScheme, size });
          await ready();
          await page.getByText("1 worker").waitFor();
          await page.screenshot({ path: `screenshots/${name}-${colorScheme}-${size}.png`, fullPage: true });
          await check();
          await assertFits(page);
          assert.deepEqual(complaints, []);
        });
      }
    }
  }
});

describe("nothing to show", () => {
  const pages = {
    "/tasks": "No task is stored yet.",
    "/leaderboards": "Nothing was accepted yet.",
    "/fleet": "No worker was seen in the last hour.",
    "/failures": "No candidate has failed.",
    "/insights": "No insights yet.",
    "/compare": "Nothing to compare yet.",
    "/runs/new": "No task is stored yet.",
  };
  for (const [path, words] of Object.entries(pages)) {
    it(path, async () => {
      service.world = empty();
      await open(path);
      await page.getByText(words).waitFor();
      await assertFits(page);
      assert.deepEqual(complaints, []);
    });
  }

  it("a task without runs", async () => {
    service.world.runs = [];
    await open(`/tasks/${taskName}`);
    await panel("Runs").getByText("No run has searched for this task yet.").waitFor();
    await panel("Leaderboard").getByText("Nothing was accepted yet.").waitFor();
  });
});

describe("trouble", () => {
  for (const path of ["/tasks", "/leaderboards", "/fleet", "/failures", "/insights", "/compare"]) {
    it(`${path} says it, and reads again`, async () => {
      service.problem = { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" };
      await open(path);
      const alert = page.locator("main").getByRole("alert").first();
      await alert.getByText("see the log for 4711").waitFor();
      service.problem = null;
      await alert.getByRole("button", { name: "Try again" }).click();
      await page.locator("main").getByText("see the log for 4711").first().waitFor({ state: "detached" }).catch(() => undefined);
      assert.ok(!(await page.locator("main .trouble").count()), "the error went");
    });
  }

  it("a task that is not there", async () => {
    await open("/tasks/none");
    await page.getByText('no task "none" is stored here').first().waitFor();
  });

  it("candidates that do not compare have no ratio", async () => {
    await open(`/compare?left=${candidateId(RACY)}&right=${candidateId(BEST)}`);
    await page.getByText("Their times do not compare:").waitFor();
    assert.ok(!/as fast/.test(await main()));
  });

  it("runs that do not compare have no common axis", async () => {
    await open(`/compare?of=runs&left=${runId(5)}&right=${runId(3)}`);
    await page.getByText("Their speedups do not compare:").waitFor();
    assert.equal(await panel("Best so far").count(), 0);
  });
});

describe("much to show", () => {
  it("failures come in pages", async () => {
    const [one] = clusters(world());
    service.world.views = { clusters: Array.from({ length: 95 }, (_, number) => ({ ...one, cause: `cause ${number} ${"of many words ".repeat(8)}`, count: 1000 - number })) };
    await open("/failures", { size: "phone" });
    await page.getByRole("article").nth(29).waitFor();
    assert.equal(await page.getByRole("article").count(), 30);
    await page.getByRole("button", { name: "Smaller clusters" }).click();
    await page.getByRole("article").nth(59).waitFor();
    await assertFits(page);
  });

  it("two hundred workers and a thousand tasks", async () => {
    const [worker] = service.world.workers;
    service.world.workers = Array.from({ length: 200 }, (_, number) => ({ ...worker, id: runId(1000 + number), name: `worker-${number}-${"x".repeat(40)}` }));
    const [task] = service.world.tasks;
    service.world.tasks = Array.from({ length: 1000 }, (_, number) => ({ ...task, name: `task-${number}` }));
    await open("/fleet", { size: "phone" });
    await row("worker-199").waitFor();
    await assertFits(page);
    await page.getByRole("link", { name: "Tasks", exact: true }).click();
    await row("task-999").waitFor();
    await page.getByPlaceholder("Filter").fill("task-99");
    await row("task-998").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 11);
    assert.match(page.url(), /filter=task-99/);
    await assertFits(page);
  });
});

describe("texts that want to be markup", () => {
  it("stay texts on every page", async () => {
    for (const run of service.world.runs) {
      run.name = HOSTILE;
      if (run.best) run.best.title = HOSTILE;
    }
    for (const node of service.world.nodes) Object.assign(node, { title: HOSTILE, proposer: HOSTILE, summary: node.summary && HOSTILE });
    for (const worker of service.world.workers) Object.assign(worker, { name: HOSTILE, toolchain: HOSTILE });
    service.world.tasks[0].title = HOSTILE;
    service.world.views = { clusters: clusters(service.world).map((cluster) => ({ ...cluster, cause: HOSTILE })), insights: someInsights(service.world, HOSTILE) };
    for (const path of ["/tasks", `/tasks/${taskName}`, "/leaderboards", "/fleet", "/failures", "/insights", `/compare?left=${candidateId(1)}&right=${candidateId(BEST)}`, `/compare?of=runs&left=${runId(5)}&right=${runId(4)}`]) {
      await open(path);
      await page.locator("main").getByText("onerror").filter({ visible: true }).first().waitFor();
      assert.equal(await page.locator("main img, main script").count(), 0, path);
      assert.ok(!(await page.title()).startsWith("owned"), path);
      assert.deepEqual(complaints, [], path);
      await context.close();
    }
  });
});

describe("what a person does", () => {
  it("moves between the places by keys, and the current one is marked", async () => {
    await open("/tasks");
    await row(taskName).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.getByRole("heading", { name: "Failures" }).waitFor();
    assert.equal(await page.getByRole("navigation", { name: "Main" }).locator("[aria-current=page]").innerText(), "Failures");
    await page.getByRole("combobox").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await page.getByRole("heading", { name: "Failures" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Tasks" }).waitFor();
  });

  it("drains a worker with a second press, not with the first", async () => {
    await open("/fleet");
    await page.getByRole("button", { name: "Drain cleo…" }).click();
    assert.ok(!service.requests.some((request) => request.endsWith("/drain")));
    await page.getByRole("button", { name: "Drain cleo", exact: true }).click();
    await row("cleo").getByText("leaves after its job").waitFor();
    assert.equal(service.requests.filter((request) => request.endsWith("/drain")).length, 1);
  });

  it("sees the failures of one run, and all candidates of a cluster", async () => {
    await open(`/failures?run=${service.world.live}`);
    const first = page.getByRole("article").first();
    await first.waitFor();
    await page.getByText("Of row-softmax playbook, by verdict and cause.").waitFor();
    await page.getByRole("combobox", { name: "Run" }).selectOption({ label: "first try" });
    await page.getByText("No candidate has failed.").waitFor();
    assert.match(page.url(), new RegExp(`run=${runId(1)}`));
  });

  it("chooses two candidates by run and number, and the address keeps them", async () => {
    await open("/compare");
    for (const [side, number] of [["Left candidate", "1"], ["Right candidate", ""]]) {
      const form = page.getByRole("form", { name: side });
      await form.getByLabel(`${side}: run`).selectOption({ label: "row-softmax playbook" });
      await form.getByLabel(`${side}: number in the run`).fill(number);
      await form.getByRole("button", { name: "Choose" }).click();
    }
    await panel("Times").waitFor();
    assert.match(page.url(), new RegExp(`left=${candidateId(1)}&right=${candidateId(BEST)}`));
    const form = page.getByRole("form", { name: "Left candidate" });
    await form.getByLabel("Left candidate: number in the run").fill("77");
    await form.getByRole("button", { name: "Choose" }).click();
    await page.getByText("This run has no candidate #77.").waitFor();
  });

  it("sees what past runs took before it starts another", async () => {
    service.world.views = { estimate: estimate(3) };
    await open(`/runs/new?task=${taskName}`);
    await panel("Estimate").getByText("Median and quartiles of 3 past runs").waitFor();
    const text = await panel("Estimate").innerText();
    assert.match(text, /Calls\s+54 \(43 to 81\)[\s\S]*Dollars\s+\$1\.80 \(\$1\.44 to \$2\.70\)[\s\S]*Running time\s+12 min/);
    await page.screenshot({ path: "screenshots/estimate.png", fullPage: true });
  });
});
