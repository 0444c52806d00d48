// The page of a candidate: its difference, its compiled code by line, and the distribution of its times.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits, layoutShift, SCHEMES, sumLayoutShift } from "./browser.js";
import { complaints, inEveryLook, open as openPath, page, panel, prepare, service, setUp } from "./hooks.js";
import { BEST, candidateId, floor, RACY, settled, timedInTurn } from "./world.js";

const DIGEST = "5".repeat(64);
const PTX = `.version 9.5
.visible .entry softmax(
	.param .u64 softmax_param_0
)
{
	.loc	1 39 0
	ld.param.u64 	%rd1, [softmax_param_0];
	.loc	1 44 5
${"	fma.rn.f32 	%f1, %f2, %f3, %f1;\n".repeat(48)}	.loc	1 52 5
	ex2.approx.f32 	%f4, %f5;
	mul.f32 	%f6, %f4, %f4;
	ret;
}
	.file	1 "/candidate.cu"
`;

setUp();

async function open(ordinal, { change = (detail) => detail, counters = null, ...options } = {}) {
  await prepare(options);
  await page.route("**/api/v1/candidates/*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change(await response.json()) });
  });
  if (counters) {
    await page.route(`**/api/v1/evidence/${DIGEST}**`, (route) => {
      const isFile = route.request().url().endsWith("/counters.json");
      const manifest = { files: { "counters.json": { digest: DIGEST, bytes: counters.length } }, left_out: {} };
      return route.fulfill({ contentType: "application/octet-stream", body: isFile ? counters : JSON.stringify(manifest) });
    });
  }
  await page.goto(`${service.origin}/candidates/${candidateId(ordinal)}`);
  await panel("Source").waitFor();
}

/** A candidate that was measured in 15 rounds of two processes. */
function measured(detail) {
  const made = timedInTurn(detail, null);
  made.evaluation.evidence = DIGEST;
  made.evaluation.measurement.rounds = [
    [0.021, 0.028, 0.031, 0.033, 0.029, 0.03, 0.034, 0.032],
    [0.026, 0.031, 0.03, 0.036, 0.027, 0.031, 0.03],
  ];
  return made;
}

it("an accepted candidate with its evidence, in every look", async () => {
  await openPath(`/candidates/${candidateId(BEST)}`);
  await panel("Times").waitFor();
  await page.getByText("1 worker").waitFor();
  await inEveryLook("accepted", async () => {
    assert.match(await panel("Times").innerText(), /wide\s+18\.6 µs[\s\S]*4,096 blocks of 128 threads[\s\S]*dram bandwidth, 81 %/);
    assert.match(await panel("Times").innerText(), /wide[\s\S]*warm cache 9\.32 µs, not scored/);
    assert.match(await panel("Floor").innerText(), /wide\s+75 % of what the device can do\s+18\.6 µs, at least 14 µs\s+memory\s+14 µs, 75 %\s*4 MiB at 300 GB\/s\s+one launch\s+2\.2 µs, 12 %/);
    assert.equal(await panel("Floor").locator("figure").count(), 0, "softmax states no operations");
    assert.match(await panel("Hypothesis").innerText(), /1\.40× to 2\.60×[\s\S]*1\.41×\s+modelled\s+as expected/);
    assert.match(await panel("Gates").innerText(), /CTAs per SM[\s\S]*at least 4 CTAs\/SM[\s\S]*8\.83 CTAs\/SM/);
    assert.match(await panel("Resources").innerText(), /softmax\s+40\s+0 B\s+0 B\s+16 B\s+372 B\s+20 B/);
    assert.match(await panel("Checks").innerText(), /all 16 passed/);
    assert.match(await panel("Evaluation").innerText(), /compile 312 ms[\s\S]*NVRTC|NVRTC[\s\S]*compile 312 ms/);
  });
});

it("the roofline of a task that states its operations, in every look", async () => {
  const change = (detail) => {
    const { verdict } = detail.evaluation;
    if (verdict.kind !== "accepted") return detail;
    const floors = verdict.timing.cases.map((time) => floor(time, 524_288, time.case === "wide" ? 4e8 : 2e7));
    return { ...detail, evaluation: { ...detail.evaluation, floors } };
  };
  await open(BEST, { change });
  await inEveryLook("roofline", async () => {
    const drawn = panel("Floor").getByRole("img", { name: /^Roofline of 300 GB\/s and 30 TFLOP\/s: .*wide does 21\.4 TFLOP\/s of 30 TFLOP\/s at 763 operations per byte/ });
    assert.equal(await drawn.locator("circle").count(), 2);
    assert.match(await panel("Floor").innerText(), /wide\s+71 % of what[\s\S]*arithmetic\s+13\.3 µs, 71 %\s*400 M operations at 30 TFLOP\/s/);
  });
});

it("a rejected candidate with the line to blame, in every look", async () => {
  await openPath(`/candidates/${candidateId(RACY)}`);
  await panel("Source").waitFor();
  await page.getByText("1 worker").waitFor();
  await inEveryLook("rejected", async () => {
    const verdict = await panel("Verdict").innerText();
    assert.match(verdict, /data race\s+line 39 shared race: thread 33 reads part\[1\]/);
    assert.match(verdict, /block \(3, 0, 0\), thread \(33, 0, 0\) · buffer part, byte 4/);
    const blamed = page.locator("#L39");
    assert.match(await blamed.innerText(), /^39\s*for \(int w = 1; w < WARPS/);
    assert.match(await blamed.locator("+ .note").innerText(), /shared race thread 33 reads/);
    assert.match(await panel("Difference to the parent").innerText(), /\+1 −1 lines[\s\S]*nothing waits for the readers/);
  });
});

it("a long kernel with many findings and calls, in every look", async () => {
  const words = "of many words ".repeat(12);
  const change = (detail) => {
    const source = Array.from({ length: 2_000 }, (_, line) => `  acc += y[threadIdx.x + ${line}] * ${line}e-3f;  // ${line % 50 === 0 ? words : ""}`).join("\n");
    const [finding] = detail.evaluation.findings;
    // The parent is read, too.
    if (!finding) return detail;
    const findings = Array.from({ length: 60 }, (_, at) => ({ ...finding, line: 1 + 30 * at, message: `${finding.message} ${words}` }));
    const diff = source.split("\n").map((text, at) => ({ change: at % 40 === 0 ? "added" : "kept", old: at % 40 === 0 ? null : at + 1, new: at + 1, text }));
    return { ...detail, title: words, source, diff, evaluation: { ...detail.evaluation, findings } };
  };
  await open(RACY, { change });
  await inEveryLook("candidate-large");
});

it("moves nothing when what the candidate names comes late", async () => {
  await prepare();
  await sumLayoutShift(page);
  for (const late of ["candidates?**", `candidates/${candidateId(0)}`, "runs/*"]) {
    await page.route(`**/api/v1/**/${late}`, async (route) => {
      await new Promise((done) => setTimeout(done, 300));
      await route.continue();
    });
  }
  const own = `/api/v1/candidates/${candidateId(BEST)}`;
  let reads = 0;
  page.on("request", (request) => (reads += new URL(request.url()).pathname === own ? 1 : 0));
  await page.goto(`${service.origin}/candidates/${candidateId(BEST)}`);
  await panel("Source").waitFor();
  await page.getByRole("link", { name: /^with the/ }).first().waitFor();
  const shift = await layoutShift(page);
  assert.equal(reads, 1);
  assert.ok(shift < 0.02, `layout shift ${shift}`);
});

describe("the difference", () => {
  it("is shown in one column or side by side, as the reader likes", async () => {
    await open(RACY);
    const difference = panel("Difference to the parent");
    await difference.getByRole("button", { name: "Side by side" }).click();
    const changed = difference.locator("tr", { hasText: "nothing waits for the readers" });
    assert.equal(await changed.locator("td").count(), 4);
    const widths = await changed.locator("td").evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().width));
    assert.ok(widths[1] > 5 * widths[0] && Math.abs(widths[1] - widths[3]) < 3, `the texts have the room: ${widths} px`);
    assert.match(await changed.innerText(), /−\s*value = part\[0\];[\s\S]*\+\s*value = part\[0\]; {2}\/\/ nothing waits/);
    await difference.screenshot({ path: "screenshots/diff-beside.png" });
    await difference.getByRole("button", { name: "One column" }).click();
    assert.match(await difference.locator("tr.added").innerText(), /nothing waits/);
    await assertFits(page);
  });

  it("has one column on a phone until the reader wants two", async () => {
    await open(RACY, { size: "phone" });
    assert.equal(await page.getByRole("button", { name: "One column" }).getAttribute("aria-pressed"), "true");
    await page.getByRole("button", { name: "Side by side" }).click();
    await assertFits(page);
  });
});

describe("a candidate whose code was judged before", () => {
  it("in another run, names both, and that its verdict was taken over", async () => {
    const taken = (detail) => (detail.id === candidateId(BEST) ? { ...detail, verdict_of: candidateId(RACY) } : detail);
    await open(BEST, { change: taken });
    await panel("Verdict").getByText("Same code as candidate #11 of run row-softmax playbook: its verdict was taken over, and nothing was evaluated again.").waitFor();
    assert.equal(await panel("Verdict").getByRole("link", { name: "candidate #11" }).getAttribute("href"), `/candidates/${candidateId(RACY)}`);
    assert.equal(await panel("Verdict").getByRole("link", { name: "row-softmax playbook" }).getAttribute("href"), `/runs/${service.world.live}`);
    await page.screenshot({ path: "screenshots/verdict-taken-over.png" });
    assert.deepEqual(complaints, []);
  });

  it("in its run, names the first", async () => {
    Object.assign(service.world.nodes[13], { state: { state: "duplicate", of: candidateId(BEST) } });
    await open(13);
    await panel("Verdict").getByText("Same code as candidate #12 of this run: its verdict was taken over.").waitFor();
  });
});

describe("the evidence", () => {
  const serve = async () => {
    await page.route(`**/api/v1/evidence/${DIGEST}**`, (route) => {
      const name = new URL(route.request().url()).pathname.split("/")[5];
      if (name === "image.ptx") return route.fulfill({ contentType: "application/octet-stream", body: PTX });
      return route.fulfill({ contentType: "application/octet-stream", body: JSON.stringify({ files: { "image.ptx": { digest: DIGEST, bytes: PTX.length }, "source.cu": { digest: DIGEST, bytes: 2048 } }, left_out: {} }) });
    });
  };

  for (const colorScheme of SCHEMES) {
    it(`shows the PTX of each line, and the lines with most of it, ${colorScheme}`, async () => {
      await open(BEST, { change: measured, colorScheme });
      await serve();
      await panel("Evidence").getByRole("button", { name: "Show PTX by line" }).click();
      await panel("Evidence").getByText("52 instructions of the text").waitFor();
      const hot = page.getByRole("button", { name: "48 PTX instructions of line 44" });
      assert.match(await hot.getAttribute("class"), /heat-4/);
      await page.screenshot({ path: `screenshots/heat-${colorScheme}.png`, fullPage: true });
      await hot.click();
      await panel("Evidence").getByText("48 instructions of line 44.").waitFor();
      assert.doesNotMatch(await panel("Evidence").locator("pre").innerText(), /ex2/);
      await panel("Evidence").getByRole("button", { name: "Files of the evidence" }).click();
      assert.equal(await panel("Evidence").getByRole("link", { name: "source.cu" }).getAttribute("href"), `/api/v1/evidence/${DIGEST}/source.cu`);
      await assertFits(page);
      assert.deepEqual(complaints, []);
    });
  }

  it("of a confirmation shows the SASS of each line", async () => {
    const sass = `softmax:\n${"44\tFFMA R1, R2, R3, R1\n".repeat(30)}52\tMUFU.EX2 R4, R5\n\tEXIT\n`;
    const digest = "6".repeat(64);
    const confirmed = (detail) => ({ ...detail, confirmation: { ...detail.confirmation, evidence: digest } });
    await open(BEST, { change: confirmed });
    await page.route(`**/api/v1/evidence/${digest}/image.sass`, (route) => route.fulfill({ contentType: "application/octet-stream", body: sass }));
    await panel("Confirmation").getByRole("button", { name: "Show SASS by line" }).click();
    await panel("Confirmation").getByText("32 instructions of the text").waitFor();
    await page.getByRole("button", { name: "30 SASS instructions of line 44" }).click();
    await panel("Confirmation").getByText("30 instructions of line 44.").waitFor();
    await panel("Confirmation").scrollIntoViewIfNeeded();
    await page.screenshot({ path: "screenshots/sass.png" });
    await assertFits(page);
    assert.deepEqual(complaints, []);
  });

  for (const colorScheme of SCHEMES) {
    it(`shows the executed instructions of each line, ${colorScheme}`, async () => {
      const counters = (instructions) => ({ warp_instructions: instructions, "global.sectors_read": 512, "global.sectors_read_ideal": 384 });
      const launches = (most) => [{ kernel: "softmax", lines: [{ line: 39, counters: counters(64) }, { line: 60, counters: counters(most) }] }];
      const recorded = { modelled_on: "l4", cases: [{ case: "narrow", launches: launches(4_718_592) }, { case: "wide", launches: launches(128) }] };
      const emulated = (detail) => ({ ...detail, evaluation: { ...detail.evaluation, evidence: DIGEST } });
      await open(BEST, { change: emulated, colorScheme, counters: JSON.stringify(recorded) });
      const hot = panel("Source").getByRole("img", { name: "Line 60: 4,718,592 warp instructions; 512 sectors of global memory, 128 beyond the least" });
      await hot.waitFor();
      assert.match(await hot.getAttribute("class"), /heat-4/);
      assert.equal(await hot.innerText(), "4.72 M");
      assert.equal(await panel("Source").locator("header").getByText("modelled").count(), 1);
      await page.screenshot({ path: `screenshots/counters-${colorScheme}.png`, fullPage: true });
      await panel("Source").getByLabel("Warp instructions of case").selectOption("wide");
      await panel("Source").getByRole("img", { name: /^Line 60: 128 warp/ }).waitFor();
      await assertFits(page);
      assert.deepEqual(complaints, []);
    });
  }

  it("that is no longer there is said to be gone", async () => {
    await open(BEST, { change: measured });
    await page.route(`**/api/v1/evidence/**`, (route) => route.fulfill({ status: 404, contentType: "application/problem+json", body: JSON.stringify({ type: "/problems/unknown-evidence", title: "Unknown evidence", status: 404, detail: "the bundle was removed to make room" }) }));
    await panel("Evidence").getByRole("button", { name: "Show PTX by line" }).click();
    await panel("Evidence").getByText("the bundle was removed to make room").waitFor();
  });
});

it("the rounds of a comparison are shown with the decision's interval", async () => {
  await open(BEST, { change: measured });
  assert.match(await panel("Verdict").innerText(), /4\.06×\s+4\.02× to 4\.10×\s+over the baseline/);
  const picture = panel("Comparison").getByRole("img", { name: /^Rounds from/ });
  assert.match(await picture.getAttribute("aria-label"), /Rounds from \+2\.12 % to \+3\.67 %; effect \+3\.09 %/);
  assert.equal(await picture.locator("circle:not(.effect)").count(), 15);
  await panel("Comparison").screenshot({ path: "screenshots/samples.png" });
  assert.deepEqual(complaints, []);
});

describe("the relatives", () => {
  it("are named without reading the run's candidates", async () => {
    await open(BEST);
    const parent = service.world.nodes[BEST].parents[0];
    const { ordinal } = service.world.nodes.find(({ id }) => id === parent);
    await page.getByRole("link", { name: new RegExp(`^#${ordinal} `) }).first().waitFor();
    assert.ok(!service.requests.some((request) => request.endsWith("/lineage")), `${service.requests}`);
    assert.equal(service.requests.filter((request) => /\/runs\/[^/]+\/candidates$/.test(request)).length, 1);
    assert.deepEqual(complaints, []);
  });

  it("are compared with the candidate by one click", async () => {
    await open(RACY);
    const [parent] = service.world.nodes[RACY].parents;
    await page.getByRole("link", { name: "with the parent" }).click();
    await page.getByRole("heading", { name: "Compare" }).waitFor();
    assert.equal(new URL(page.url()).search, `?left=${parent}&right=${candidateId(RACY)}`);
    await page.goBack();
    await page.getByRole("link", { name: "with the best of the run" }).click();
    assert.equal(new URL(page.url()).searchParams.get("left"), candidateId(BEST));
  });

  it("include what it was timed beside", async () => {
    const digest = "7".repeat(64);
    await open(BEST, { change: (made) => ({ ...measured(made), evaluation: { ...measured(made).evaluation, measurement: { ...measured(made).evaluation.measurement, incumbent: digest } } }) });
    await page.route(`**/candidates?digest=${digest}*`, (route) => route.fulfill({ json: { candidates: [service.world.nodes[0]], next: null } }));
    await page.reload();
    await page.getByRole("link", { name: /with the .*incumbent/ }).waitFor();
  });
});

it("tells what sanitizers said before a promotion, and what was left out", async () => {
  await openPath(`/candidates/${candidateId(BEST)}`);
  const box = page.locator(".confirmation");
  await box.waitFor();
  assert.match(await box.innerText(), /memcheck\s+clean[\s\S]*racecheck\s+not run: it did not end in 120 s[\s\S]*many elements\s+not run: memory/);
});

it("tells who looked at a measured candidate first, and what came of comparing the incumbent with itself", async () => {
  const wrong = { kind: "caught", screening: settled(0.012, "faster"), reason: "a gain of -0.31% to +0.22%" };
  await openPath("/");
  await page.route("**/api/v1/candidates/*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: timedInTurn(await response.json(), wrong) });
  });
  await page.goto(`${service.origin}/candidates/${candidateId(BEST)}`);
  await panel("Comparison").waitFor();
  assert.match(await panel("Comparison").innerText(), /Control\s+the incumbent against itself: called faster by its screening, not by its confirmation: a gain of -0\.31% to \+0\.22%/);
  assert.match(await panel("Evaluation").innerText(), /Device\s+NVIDIA L4, nvidia[\s\S]*Pre-screen\s+2 of 31 executions on Emulated L4/);
  assert.deepEqual(complaints, []);
});

it("a candidate without a verdict says what it waits for", async () => {
  await openPath(`/candidates/${candidateId(18)}`);
  await panel("Verdict").getByText("queued").waitFor();
  await panel("Source").waitFor();
  await inEveryLook("candidate-empty");
});

it("a link to a line opens the candidate at that line", async () => {
  await openPath(`/candidates/${candidateId(BEST)}#L72`);
  const line = page.locator("#L72");
  await line.waitFor();
  assert.match(await line.getAttribute("class"), /target/);
  const [top, height] = await line.evaluate((element) => [element.getBoundingClientRect().top, innerHeight]);
  assert.ok(top >= 0 && top < height, `line 72 is at ${top} px of ${height} px`);
});
