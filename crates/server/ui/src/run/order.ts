// The order of a list of runs.

import type { RunView } from "../api/types";

export const ORDERS = ["run", "best", "trials", "cost", "updated"] as const;
export type OrderBy = (typeof ORDERS)[number];

export interface RunOrder {
  by: OrderBy;
  descending: boolean;
}

/** Columns that are read from A to Z; of the others the greatest values come first. */
const ASCENDING: ReadonlySet<OrderBy> = new Set(["run"]);

/** Reads an order as an address has it: `best`, or `-best` for the other direction; null for any other text. */
export function parseOrder(text: string | null): RunOrder | null {
  const by = ORDERS.find((name) => name === text?.replace(/^-/, ""));
  return by === undefined ? null : { by, descending: text?.startsWith("-") !== !ASCENDING.has(by) };
}

export function toText({ by, descending }: RunOrder): string {
  return descending === !ASCENDING.has(by) ? by : `-${by}`;
}

/** The order after a click on a column: the other direction, or that in which the column is usually read. */
export function clicked(before: RunOrder | null, by: OrderBy): RunOrder {
  return before?.by === by ? { by, descending: !before.descending } : { by, descending: !ASCENDING.has(by) };
}

/** The runs in an order, those without the value last. Measured and modelled speedups do not compare: measured ones come first. */
export function ordered(runs: readonly RunView[], order: RunOrder | null): RunView[] {
  if (order === null) return [...runs];
  const sign = order.descending ? -1 : 1;
  return runs.toSorted((one, other) => {
    if (order.by === "run") return sign * one.name.localeCompare(other.name);
    if (order.by === "best" && one.best && other.best && one.best.modelled !== other.best.modelled) return one.best.modelled ? 1 : -1;
    const [left, right] = [value(one, order.by), value(other, order.by)];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return sign * (left - right);
  });
}

function value(run: RunView, by: Exclude<OrderBy, "run">): number | null {
  switch (by) {
    case "best":
      return run.best?.speedup ?? null;
    case "trials":
      return run.trials;
    case "cost":
      return run.spend.calls === 0 ? null : run.spend.dollars;
    case "updated":
      return Date.parse(run.updated_at);
  }
}
