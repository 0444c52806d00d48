import { describe as group, expect, it } from "vitest";

import type { SteeringEntry } from "../api/types";
import { describe, inForceFor, isInForce } from "./steering";

const entry = (over: object): SteeringEntry => ({ entry: 1, at: "2026-10-01T00:00:00Z", actor: "ada", since: 3, withdrawn_by: null, ...over }) as SteeringEntry;
const limits = { trials: 45, wall_seconds: null, tokens: null, dollars: 1, device_seconds: null, device_dollars: null, floor_percent: null, gain_per_dollar: null, trials_without_gain: null };

group("directions", () => {
  it("are described in words", () => {
    expect(describe({ kind: "hint", text: "use cp.async", prompts: null })).toBe("hint: use cp.async");
    expect(describe({ kind: "hint", text: "tile", prompts: 1 })).toBe("hint for 1 prompt: tile");
    expect(describe({ kind: "ban", candidate: "a", ordinal: 3, descendants: true })).toBe("banned with its descendants");
    expect(describe({ kind: "insight", candidate: "a", ordinal: 3, text: null })).toBe("insight left out of prompts");
    expect(describe({ kind: "model", from: "small", to: "large" })).toBe("model small replaced by large");
  });

  it("name only the limits that changed", () => {
    expect(describe({ kind: "budget", before: limits, after: { ...limits, trials: 90 } })).toBe("budget: 90 trials instead of 45 trials");
    expect(describe({ kind: "budget", before: limits, after: { ...limits, tokens: 1000 } })).toBe("budget: 1,000 tokens instead of no limit");
    const early = { ...limits, floor_percent: 90, gain_per_dollar: 2 };
    expect(describe({ kind: "budget", before: { ...early, floor_percent: 80 }, after: early })).toBe("budget: an end at 90 % of the floor instead of an end at 80 % of the floor");
    expect(describe({ kind: "budget", before: limits, after: { ...limits, trials_without_gain: 10 } })).toBe("budget: an end after 10 trials without a gain instead of no limit");
    expect(describe({ kind: "budget", before: limits, after: { ...limits, gain_per_dollar: 0 } })).toBe("budget: an end below 0 % of gain per dollar instead of no limit");
  });

  it("of a candidate are those in force", () => {
    const pin = entry({ kind: "pin", candidate: "a", ordinal: 2 });
    const entries = [pin, entry({ kind: "ban", candidate: "a", ordinal: 2, descendants: false, withdrawn_by: 4 }), entry({ kind: "pin", candidate: "b", ordinal: 5 })];
    expect(inForceFor(entries, "a")).toEqual([pin]);
    expect(isInForce(entry({ kind: "promote", candidate: "a", ordinal: 2 }))).toBe(false);
  });
});
