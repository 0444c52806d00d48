// A recording for the run that the tests launch on the real service. The replies are written by
// hand, from the task's own files: they say nothing about any model.

import { readFileSync } from "node:fs";

export const TASK = new URL("../../kernels/softmax-f32/", import.meta.url);
const file = (name) => readFileSync(new URL(name, TASK), "utf8");
/** The broken variants say what becomes of them; a model would not. */
const unannounced = (text) => text.replace(/\[expect\]\n(.+\n)+\n?/, "");
const fenced = (text) => `\`\`\`cuda\n${text}\`\`\`\n`;

const PER_ROW = file("playbook/01-block-per-row.cu");
const threads = (count) => fenced(PER_ROW.replace("value = 128", `value = ${count}`));

/** Markup in a model's reply, which a page must show as text. */
export const HOSTILE = `<img src="x" onerror="document.title='taken over'"><script>document.title = "taken over"</script>`;

/**
 * Replies by the candidate's ordinal and the call's turn. Those of the last generation are all here: a missing one
 * would pause the run before the calls beside it are made. Repairs of #10 and #11 are asked for later, and have none.
 */
const REPLIES = {
  "1.0": `A block for each row, so that a warp's loads are consecutive.\n\n${fenced(PER_ROW)}`,
  "2.0": threads(256),
  "3.0": fenced(unannounced(file("broken/shared-sum-unguarded.cu"))),
  "4.0": `I cannot say anything about ${HOSTILE} without a profile.`,
  "4.1": "There is still no kernel in this answer.",
  "5.0": fenced(PER_ROW.replace("mass += expf", "mass += expfast")),
  "6.0": fenced(file("playbook/02-row-in-registers.cu")),
  "7.0": threads(64),
  "8.0": threads(256),
  "9.0": threads(32),
  "10.0": fenced(PER_ROW.replace("mass += expf", "mass += expslow")),
  "11.0": fenced(PER_ROW.replace("mass += expf", "mass += expquick")),
};

/** Any digest: the replies are taken for whatever prompt is in their place. */
const DIGEST = "0".repeat(64);

export function recording(price) {
  const header = { cassette: 1, task: "softmax-f32", task_version: DIGEST, run: { task: "softmax-f32", method: "full" }, origin: "written by hand" };
  const calls = Object.entries(REPLIES).map(([position, text]) => {
    const [ordinal, turn] = position.split(".").map(Number);
    const usage = { input: 400, cached: 3600, cache_written: 0, output: Math.ceil(text.length / 3) };
    return { ordinal, turn, prompt_digest: DIGEST, model: "hand-1", reply: { text, end: "complete", usage, usage_estimated: false }, price };
  });
  return [header, ...calls].map((line) => `${JSON.stringify(line)}\n`).join("");
}
