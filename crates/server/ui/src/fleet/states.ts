// The states of workers in words, in the order in which they need attention.

import type { FleetWorker } from "../api/types";
import { count, range } from "../words/format";
import type { Tone } from "../words/verdicts";

type State = FleetWorker["state"];

export const STATES: Record<State, { label: string; tone: Tone }> = {
  unwell: { label: "unwell", tone: "died" },
  suspended: { label: "suspended", tone: "early" },
  lost: { label: "lost", tone: "wrong" },
  draining: { label: "draining", tone: "early" },
  busy: { label: "busy", tone: "good" },
  idle: { label: "idle", tone: "unsure" },
};

export const ORDER = Object.keys(STATES) as State[];

/** The number of workers in each state that any is in. */
export function tallyStates(workers: readonly FleetWorker[]): { state: State; count: number }[] {
  const counts = ORDER.map((state) => ({ state, count: workers.filter((worker) => worker.state === state).length }));
  return counts.filter(({ count }) => count > 0);
}

/** The condition of a worker's device in words. */
export function conditionWords({ condition }: Pick<FleetWorker, "condition">): string {
  if (condition === null) return "not checked yet";
  return condition.state === "well" ? "well" : `set aside: ${condition.reason}`;
}

/** Clock and temperature of a device while it timed kernels, as far as its driver tells them. */
export function watchedWords(watched: NonNullable<FleetWorker["watched"]>): string {
  const known = [
    ...(watched.counted_mhz ? [range(watched.counted_mhz, (mhz) => `${mhz.toFixed(0)} MHz`)] : []),
    ...(watched.celsius ? [range(watched.celsius, (celsius) => `${celsius.toFixed(0)} °C`)] : []),
    ...(watched.power_capped > 0 ? [`the power limit held the clock down in ${count(watched.power_capped)} of ${count(watched.blocks)} blocks`] : []),
  ];
  return known.length > 0 ? known.join(", ") : "the driver told neither clock nor temperature";
}
