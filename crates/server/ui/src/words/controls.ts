// Controls, the incumbent compared with itself, in words: what came of one, and what all of a
// device's say of its comparisons.

import type { Control, ControlTally, DeviceKind } from "../api/types";
import { count } from "./format";

const WORDS: Record<Control["kind"], string> = {
  unfinished: "not finished",
  level: "not called faster, as is right",
  caught: "called faster by its screening, not by its confirmation",
  undecided: "called faster by its screening; its confirmation was not finished",
  promoted: "called faster by its screening and by its confirmation",
};

/** The outcome of a control, with the reason where there is one. */
export function outcome(control: Control): string {
  const reason = "reason" in control ? `: ${control.reason}` : "";
  return WORDS[control.kind] + reason;
}

/** Returns true if a control shows that its comparison was wrong. */
export function isWrong({ kind }: Control): boolean {
  return kind === "caught" || kind === "undecided" || kind === "promoted";
}

/** An upper bound on a share: rounded down it would be none. */
export function atMost(share: number): string {
  return `at most ${Math.min(100, Math.ceil(1e4 * share) / 100).toFixed(2)}\u00a0%`;
}

/**
 * The error rates that a device's controls show, in words. Without a control there is no rate. Modelled times have no
 * controls, because they have no noise.
 */
export function tally(kind: DeviceKind, controls: ControlTally): string {
  const parts = [];
  if (controls.screened_at_most === null || controls.promoted_at_most === null)
    parts.push(kind === "emulated" ? "none: modelled times have no noise" : "none yet");
  else {
    parts.push(count(controls.made));
    parts.push(`${count(controls.screened)} screened as faster (${atMost(controls.screened_at_most)})`);
    parts.push(`${count(controls.promoted)} promoted (${atMost(controls.promoted_at_most)})`);
  }
  if (controls.undecided > 0) parts.push(`${count(controls.undecided)} undecided`);
  if (controls.unfinished > 0) parts.push(`${count(controls.unfinished)} unfinished`);
  return parts.join(", ");
}
