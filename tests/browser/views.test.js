// The pages beside runs and candidates, in a real browser, against the stand-in: each with nothing, with
// a little and with much to show, and with texts that want to be markup.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { complaints, drawn, inEveryLook, open, page, panel, service, setUp } from "./hooks.js";
import { assertSpeaks } from "./schema.js";
import { admissions, boards, clusters, compareCandidates, compareRuns, definition, deviceMonths, estimate, fleet, promotions, someInsights, taskName, versions } from "./views.js";
import { BEST, candidateId, RACY, runId, world } from "./world.js";

const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

setUp();

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
  assertSpeaks("TaskVersion", versions(made.tasks[0]));
  assertSpeaks("TaskAdmission", admissions(made.tasks[0]));
  assertSpeaks("DeviceMonth", deviceMonths());
  assertSpeaks("Leaderboard", boards(made));
  assertSpeaks("Fleet", [fleet(made)]);
  assertSpeaks("FailureCluster", clusters(made));
  assertSpeaks("Insight", someInsights(made));
  assertSpeaks("PromotionEntry", promotions(made));
  assertSpeaks("PromotionView", promotions(made).map(({ promotion }) => promotion));
  assertSpeaks("RunEstimate", [estimate(0), estimate(3)]);
  assertSpeaks("CandidateComparison", [compareCandidates(made, url(`left=${candidateId(1)}&right=${candidateId(BEST)}`)).body, compareCandidates(made, url(`left=${candidateId(RACY)}&right=${candidateId(BEST)}`)).body]);
  assertSpeaks("RunComparison", [compareRuns(made, url(`left=${runId(5)}&right=${runId(4)}`)).body, compareRuns(made, url(`left=${runId(5)}&right=${runId(4)}&spent=true`)).body]);
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
        assert.match(await panel("Admission").innerText(), /Kernelwright emulated L4\s+may be searched[\s\S]*no case has fewer than 512 columns[\s\S]*NVIDIA L4\s+refused by 1 rule[\s\S]*broken\s+impostor turned away\s+all zeros\s+accepted, although[\s\S]*holds\s+not near zero\s+y\s+0\.8\s+0\.01/);
        assert.match(await panel("Versions").innerText(), /newest[\s\S]*4, 1 open[\s\S]*as above, other files differ[\s\S]*cccccccccccc/);
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
        const ada = await row("ada").first().innerText();
        assert.match(ada, /\$0\.71 an hour[\s\S]*suspended[\s\S]*until[\s\S]*3 faults since its last verdict/);
        assert.match(ada, /1650 MHz to 1710 MHz, 58 °C to 61 °C, the power limit held the clock down in 3 of 40 blocks while it timed kernels/);
        assert.match(await panel("Device hours").innerText(), /2026-11\s+all\s+128\.00 h\s+91\.00 h\s+71 %\s+\$85\.20[\s\S]*bob[\s\S]*not told[\s\S]*2026-10[\s\S]*\$497/);
        assert.match(await row("bob").first().innerText(), /unwell[\s\S]*protocol 10, the service speaks 11[\s\S]*set aside: it does not keep what was written/);
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
        const trend = page.getByRole("article").first().getByRole("img", { name: /^\d in the first half of the time, \d in the second$/ });
        const counted = (await trend.getAttribute("aria-label")).match(/\d/g).map(Number);
        assert.equal(counted[0] + counted[1], 2, "the trend counts every candidate of the cluster");
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
    promotions: {
      path: "/promotions",
      ready: () => page.getByRole("listitem").first().waitFor(),
      async check() {
        const text = await main();
        assert.match(text, /confirming[\s\S]*It waits: the run is paused \(paused by request\)[\s\S]*committed[\s\S]*commit 9fceb02d0ae598e95dc970b74767f19372d61af8 on branch kernelwright\/row-softmax[\s\S]*taken back[\s\S]*0\.97 times[\s\S]*refused[\s\S]*blocked[\s\S]*merge or delete it/);
        assert.equal((await text.split("kernelwright/row-softmax")).length, 3, "branches of those with a commit");
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
  for (const [name, { path, before, ready, check }] of Object.entries(pages)) {
    it(name, async () => {
      before?.();
      await open(path);
      await ready();
      await page.getByText("1 worker").waitFor();
      await inEveryLook(name, check);
    });
  }
});

describe("nothing to show", () => {
  const pages = {
    "/tasks": "No task is stored yet.",
    "/leaderboards": "Nothing was accepted yet.",
    "/fleet": "No worker was seen in the last hour.",
    "/failures": "No candidate has failed.",
    "/insights": "No insights yet.",
    "/promotions": "Nothing was promoted yet.",
    "/compare": "Nothing to compare yet.",
    "/runs/new": "No task is stored yet.",
  };
  for (const [path, words] of Object.entries(pages)) {
    it(path, async () => {
      service.world = empty();
      await open(path);
      await page.getByText(words).waitFor();
      await inEveryLook(`empty${path.replaceAll("/", "-")}`);
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
  for (const path of ["/tasks", "/leaderboards", "/fleet", "/failures", "/insights", "/promotions", "/compare"]) {
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
    await inEveryLook("failures-large");
  });

  it("two hundred workers and a thousand tasks", async () => {
    const [worker] = service.world.workers;
    service.world.workers = Array.from({ length: 200 }, (_, number) => ({ ...worker, id: runId(1000 + number), name: `worker-${number}-${"x".repeat(40)}` }));
    const [task] = service.world.tasks;
    service.world.tasks = Array.from({ length: 1000 }, (_, number) => ({ ...task, name: `task-${number}` }));
    await open("/fleet", { size: "phone" });
    await row("worker-199").waitFor();
    await inEveryLook("fleet-large");
    await page.getByRole("link", { name: "Tasks", exact: true }).click();
    await row("task-999").waitFor();
    await page.getByPlaceholder("Filter").fill("task-99");
    await row("task-998").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 11);
    assert.match(page.url(), /filter=task-99/);
    await inEveryLook("tasks-large");
  });

  const words = "of many words ".repeat(12);

  it("promotions come in pages, and in one state", async () => {
    const all = promotions(service.world);
    service.world.views = { promotions: Array.from({ length: 95 }, (_, number) => ({ ...all[number % 5], title: words, promotion: { ...all[number % 5].promotion, id: runId(1000 + number) } })) };
    await open("/promotions", { size: "phone" });
    await page.getByRole("listitem").nth(29).waitFor();
    await page.getByRole("button", { name: "Older promotions" }).click();
    await page.getByRole("listitem").nth(59).waitFor();
    await inEveryLook("promotions-large");
    await page.getByRole("combobox", { name: "State" }).selectOption("taken back");
    await page.getByRole("listitem").nth(18).waitFor();
    assert.equal(await page.getByRole("listitem").count(), 19);
    assert.match(page.url(), /state=reverted$/);
  });

  it("hundreds of insights with long thoughts", async () => {
    const some = someInsights(service.world);
    service.world.views = { insights: Array.from({ length: 400 }, (_, number) => ({ ...some[number % 4], candidate: candidateId(number), ordinal: number, thought: `thought ${number} ${words}` })) };
    await open(`/insights?run=${service.world.live}`);
    await page.locator("main li").nth(30).waitFor();
    await inEveryLook("insights-large");
  });

  it("boards of many tasks", async () => {
    const [board] = boards(service.world);
    const entries = Array.from({ length: 5 }, (_, at) => ({ ...board.entries[0], candidate: candidateId(at), title: words }));
    service.world.views = { leaderboards: { boards: Array.from({ length: 40 }, (_, number) => ({ ...board, task: `task-${number}`, entries })), next: null } };
    await open("/leaderboards");
    await panel("task-39").waitFor();
    await inEveryLook("leaderboards-large");
  });

  it("two runs of a hundred thousand trials, and two long kernels", async () => {
    const [left, right] = [5, 4].map((number) => service.world.runs.find(({ id }) => id === runId(number)));
    for (const run of [left, right]) Object.assign(run, { name: `${run.name} ${words}`, task: "row-softmax", trials: 100_000, budget: { ...run.budget, trials: 100_000 }, verdicts: { accepted: 61_234, incorrect_output: 22_222, compile_rejected: 16_544 } });
    await open(`/compare?of=runs&left=${left.id}&right=${right.id}`);
    await panel("Best so far").waitFor();
    await inEveryLook("compare-runs-large", async () => {
      const [plot, room] = await panel("Best so far").locator("svg").first().evaluate((svg) => [svg.getBoundingClientRect().width, svg.parentElement.clientWidth]);
      assert.equal(plot, room, "the plot has the width of its panel");
      const [table, frame] = await panel("Side by side").locator(".scroll").evaluate((scroll) => [scroll.scrollWidth, scroll.clientWidth]);
      assert.ok(table <= frame, `the table is ${table} px wide in ${frame} px`);
    });
    const source = Array.from({ length: 1_500 }, (_, line) => `  acc += y[threadIdx.x + ${line}] * ${line}e-3f;  // ${line % 50 === 0 ? words : ""}`).join("\n");
    await page.route("**/api/v1/compare/candidates?*", async (route) => {
      const response = await route.fetch();
      const lines = source.split("\n").flatMap((text, at) => (at % 40 === 0 ? [{ change: "removed", old: at + 1, new: null, text }, { change: "added", old: null, new: at + 1, text: `${text} ` }] : [{ change: "kept", old: at + 1, new: at + 1, text }]));
      await route.fulfill({ response, json: { ...(await response.json()), diff: lines } });
    });
    await page.goto(`${service.origin}/compare?left=${candidateId(1)}&right=${candidateId(BEST)}`);
    await panel("Times").waitFor();
    const cells = page.getByRole("region", { name: "Sources side by side" }).locator("tbody tr").first().locator("td");
    const widths = await cells.evaluateAll((found) => found.map((cell) => cell.getBoundingClientRect().width));
    assert.ok(widths[1] > 5 * widths[0] && Math.abs(widths[1] - widths[3]) < 3, `the texts have the room: ${widths} px`);
    await inEveryLook("compare-large");
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
    for (const path of ["/tasks", `/tasks/${taskName}`, "/leaderboards", "/fleet", "/failures", "/insights", "/promotions", `/runs/new?task=${taskName}`, `/compare?left=${candidateId(1)}&right=${candidateId(BEST)}`, `/compare?of=runs&left=${runId(5)}&right=${runId(4)}`]) {
      await open(path);
      await page.locator("main").getByText("onerror").filter({ visible: true }).first().waitFor();
      assert.equal(await page.locator("main img, main script").count(), 0, path);
      assert.ok(!(await page.title()).startsWith("owned"), path);
      assert.deepEqual(complaints, [], path);
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

  it("sees the current place of a navigation that is too narrow for all", async () => {
    await open("/fleet", { size: "phone" });
    const place = page.getByRole("navigation", { name: "Main" }).locator("[aria-current=page]");
    await place.waitFor();
    await drawn();
    const { x, width } = await place.boundingBox();
    assert.ok(x >= 0 && x + width <= 390, `from ${x} to ${x + width} px of 390 px`);
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

  it("compares two runs along dollars and device time", async () => {
    const [left, right] = [5, 1].map((number) => service.world.runs.find(({ id }) => id === runId(number)));
    Object.assign(left.spend, { calls: 4, dollars: 2 });
    Object.assign(right.spend, { calls: 4, dollars: 6, device_ms: 5_000 });
    await open(`/compare?of=runs&left=${left.id}&right=${right.id}`);
    const curves = panel("Best so far");
    await curves.getByText("which both have made").waitFor();
    assert.equal(service.requests.filter((request) => request.includes("/compare/runs")).length, 1, "costs are read once they are asked for");
    await curves.getByRole("button", { name: "dollars", exact: true }).click();
    await curves.getByText("At $2, which both have used:").waitFor();
    await curves.getByRole("img", { name: /along dollars: row-softmax playbook reaches .* in \$2;/ }).waitFor();
    await page.screenshot({ path: "screenshots/compare-runs-dollars.png", fullPage: true });
    await curves.getByRole("button", { name: "device time", exact: true }).click();
    await curves.getByText("At 5 s of device time, which both have used:").waitFor();
    assert.equal(service.requests.filter((request) => request.includes("/compare/runs")).length, 2, "once for both axes");
    assert.deepEqual(complaints, []);
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
