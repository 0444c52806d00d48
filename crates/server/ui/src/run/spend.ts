// The used part of each budget of a run, and the part reserved for calls in progress.

import type { RunView } from "../api/types";
import { read } from "../candidate/calls";
import { count, dollars, span } from "../words/format";

export interface BudgetLine {
  name: string;
  used: number;
  /** The most that calls in progress may use; it counts against the budget. */
  committed: number;
  /** None is unlimited. */
  limit: number | null;
  quantity: (value: number) => string;
  /** What the used part cost, dollars, where it is no part of another line. */
  price?: number;
}

/** Every budget that means something for the run: set, or drawn on. */
export function budgetLines(run: RunView): BudgetLine[] {
  const { budget, spend } = run;
  // Requests whose answer was lost count with the most that they may have used.
  const tokens = read(spend.usage) + spend.usage.output + spend.interrupted_tokens;
  const spent = spend.dollars + spend.interrupted_dollars;
  // With a limit the price is a line of its own.
  const priced = budget.device_dollars != null;
  // The service leaves out limits that are not set.
  const lines: BudgetLine[] = [
    { name: "Trials", used: run.trials, committed: 0, limit: budget.trials, quantity: count },
    { name: "Tokens", used: tokens, committed: spend.committed_tokens, limit: budget.tokens ?? null, quantity: count },
    { name: "Dollars", used: spent, committed: spend.committed_dollars, limit: budget.dollars ?? null, quantity: dollars },
    { name: "Running time", used: Math.floor(run.running_ms / 1000), committed: 0, limit: budget.wall_seconds ?? null, quantity: span },
    { name: "Device time", used: Math.round(spend.device_ms / 100) / 10, committed: 0, limit: budget.device_seconds ?? null, quantity: seconds, price: priced ? undefined : spend.device_dollars },
    { name: "Dollars for devices", used: priced ? spend.device_dollars : 0, committed: 0, limit: budget.device_dollars ?? null, quantity: dollars },
  ];
  return lines.filter(({ used, committed, limit }) => limit !== null || used > 0 || committed > 0);
}

/** The conditions that end the run before its limits do, in words. */
export function earlyEnds({ budget }: Pick<RunView, "budget">): string[] {
  const floor = budget.floor_percent ?? null;
  const gain = budget.gain_per_dollar ?? null;
  const trials = budget.trials_without_gain ?? null;
  return [
    ...(floor === null ? [] : [`once the floor is ${count(floor)} % of the champion's time`]),
    ...(gain === null || gain === 0 ? [] : [`once a dollar for models is expected to bring less than ${count(gain)} %`]),
    ...(trials === null ? [] : [`once ${count(trials)} trials in a row bring nothing faster`]),
  ];
}

/** Device time is short at first: tenths matter. */
function seconds(value: number): string {
  return value < 60 ? `${value} s` : span(value);
}

/** The parts of a bar, as shares of its length. Without a limit there is nothing to compare with. */
export function shares({ used, committed, limit }: BudgetLine): { used: number; committed: number } {
  if (limit === null) return { used: 0, committed: 0 };
  const share = (value: number) => (limit > 0 ? Math.min(1, value / limit) : 1);
  return { used: share(used), committed: share(used + committed) - share(used) };
}

/** Returns true if the run asks models. */
export function asksModels(run: RunView): boolean {
  return run.models.length > 0;
}
