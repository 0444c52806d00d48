// Directions that people give a run, in words, and the selection of those in force.

import type { Budget, Steer, SteeringEntry } from "../api/types";
import { count, dollars, span } from "../words/format";

const LIMITS: [keyof Budget, (value: number) => string][] = [
  ["trials", (value) => `${count(value)} trials`],
  ["wall_seconds", span],
  ["tokens", (value) => `${count(value)} tokens`],
  ["dollars", dollars],
  ["device_seconds", (value) => `${count(value)} s of device time`],
  ["device_dollars", (value) => `${dollars(value)} for devices`],
  ["floor_percent", (value) => `an end at ${count(value)} % of the floor`],
  ["gain_per_dollar", (value) => `an end below ${count(value)} % of gain per dollar`],
  ["trials_without_gain", (value) => `an end after ${count(value)} trials without a gain`],
];

/** A direction in words, without its candidate. */
export function describe(what: Steer): string {
  switch (what.kind) {
    case "hint":
      return `hint${what.prompts === null ? "" : ` for ${count(what.prompts)} ${what.prompts === 1 ? "prompt" : "prompts"}`}: ${what.text}`;
    case "pin":
      return "pinned as a parent";
    case "ban":
      return what.descendants ? "banned with its descendants" : "banned";
    case "avoid":
      return `avoid: ${what.idea}`;
    case "insight":
      return what.text === null ? "insight left out of prompts" : `insight corrected: ${what.text}`;
    case "withdraw":
      return `direction ${what.withdrawn} withdrawn`;
    case "budget":
      return `budget: ${changes(what.before, what.after).join(", ") || "unchanged"}`;
    case "model":
      return `model ${what.from} replaced by ${what.to}`;
    case "fork":
      return "forked";
    case "reevaluate":
      return "evaluation asked for again";
    case "promote":
      return "promotion asked for";
  }
}

/** The limits that differ, each with its value before. */
function changes(before: Budget, after: Budget): string[] {
  return LIMITS.flatMap(([name, words]) => {
    const [old, now] = [before[name], after[name]];
    return old === now || now === null || now === undefined ? [] : [`${words(now)} instead of ${old === null || old === undefined ? "no limit" : words(old)}`];
  });
}

/** True if a direction is in force and can be withdrawn. */
export function isInForce(entry: SteeringEntry): boolean {
  return entry.withdrawn_by === null && ["hint", "pin", "ban", "avoid", "insight"].includes(entry.kind);
}

/** The directions in force that name a candidate. */
export function inForceFor(entries: readonly SteeringEntry[], candidate: string): SteeringEntry[] {
  return entries.filter((entry) => isInForce(entry) && "candidate" in entry && entry.candidate === candidate);
}
