import { expect, it } from "vitest";

import type { RunView } from "../api/types";
import { runView } from "../samples";
import { budgetLines, earlyEnds, shares } from "./spend";

function line(run: RunView, name: string) {
  const found = budgetLines(run).find((candidate) => candidate.name === name);
  if (!found) throw new Error(`no line ${name}`);
  return found;
}

it("leaves out what is neither limited nor used", () => {
  expect(budgetLines(runView()).map(({ name }) => name)).toEqual(["Trials"]);
});

it("takes a limit that the service left out for none", () => {
  const budget = JSON.parse('{"trials": 9}') as RunView["budget"];
  const spend = { ...runView().spend, dollars: 0.5 };
  expect(line(runView({ budget, spend }), "Dollars").limit).toBeNull();
});

it("counts what was read and written, cached or not, and what is promised", () => {
  const usage = { input: 100, cached: 900, cache_written: 50, output: 30 };
  const spend = { ...runView().spend, usage, dollars: 0.5, committed_tokens: 4000, committed_dollars: 0.25 };
  const run = runView({ spend, budget: { ...runView().budget, dollars: 1 } });
  expect(line(run, "Tokens")).toMatchObject({ used: 1080, committed: 4000, limit: null });
  expect(shares(line(run, "Tokens"))).toEqual({ used: 0, committed: 0 });
  expect(shares(line(run, "Dollars"))).toEqual({ used: 0.5, committed: 0.25 });
});

it("counts requests whose answer was lost with the most that they may have used", () => {
  const usage = { input: 100, cached: 0, cache_written: 0, output: 20 };
  const spend = { ...runView().spend, usage, dollars: 0.5, interrupted_calls: 2, interrupted_tokens: 3000, interrupted_dollars: 0.25 };
  const run = runView({ spend });
  expect(line(run, "Tokens").used).toBe(3120);
  expect(line(run, "Dollars").used).toBe(0.75);
});

it("never draws more than the whole budget", () => {
  const spend = { ...runView().spend, dollars: 0.9, committed_dollars: 0.4 };
  const parts = shares(line(runView({ spend, budget: { ...runView().budget, dollars: 1 } }), "Dollars"));
  expect(parts.used).toBeCloseTo(0.9);
  expect(parts.used + parts.committed).toBeCloseTo(1);
});

it("says what ends a run early", () => {
  const { budget } = runView();
  expect(earlyEnds({ budget })).toEqual([]);
  expect(earlyEnds({ budget: { ...budget, floor_percent: 90, gain_per_dollar: 2 } })).toEqual(["once the floor is 90 % of the champion's time", "once a dollar for models is expected to bring less than 2 %"]);
  expect(earlyEnds({ budget: { ...budget, gain_per_dollar: 0 } })).toEqual([]);
  expect(earlyEnds({ budget: { ...budget, trials_without_gain: 10 } })).toEqual(["once 10 trials in a row bring nothing faster"]);
});

it("says times in seconds", () => {
  const run = runView({ running_ms: 61_900, spend: { ...runView().spend, device_ms: 1_234 } });
  const [wall, device] = [line(run, "Running time"), line(run, "Device time")];
  expect([wall.quantity(wall.used), device.quantity(device.used)]).toEqual(["1 min 1 s", "1.2 s"]);
});

it("shows the price of device time beside it, and on a line of its own where it is limited", () => {
  const spend = { ...runView().spend, device_ms: 5_000, device_dollars: 0.25 };
  const free = runView({ spend });
  expect(line(free, "Device time").price).toBe(0.25);
  const limited = runView({ spend, budget: { ...runView().budget, device_dollars: 2 } });
  expect(line(limited, "Device time").price).toBeUndefined();
  const { used, limit } = line(limited, "Dollars for devices");
  expect([used, limit]).toEqual([0.25, 2]);
});
