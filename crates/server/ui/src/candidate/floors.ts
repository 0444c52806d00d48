// The least times that a device needs for a case's work, beside the time found, and the roofline that they make.

import type { Floor } from "../api/types";
import { bytes, caseName, compact } from "../words/format";

type Resource = Floor["resources"][number];

/** A resource's least time, as a share of the time found. */
export interface ResourceBar {
  name: string;
  /** How much of it the work takes at least, and at what rate; empty where that is not known. */
  amount: string;
  us: number;
  share: number;
  /** True for the resource that takes longest: its time is the floor. */
  bounds: boolean;
}

const NAMES: Record<Resource["bound"], string> = { launch: "one launch", bytes: "memory", operations: "arithmetic" };

function amount({ bound, us, amount }: Resource): string {
  if (amount === null || us <= 0) return "";
  // A rate of units per microsecond is as many mega-units per second.
  const perSecond = (amount / us) * 1e6;
  return bound === "bytes" ? `${bytes(amount)} at ${compact(perSecond)}B/s` : `${compact(amount)} operations at ${compact(perSecond)}FLOP/s`;
}

/** The resources that take time, the longest first. Evaluations of earlier releases name only that one. */
export function resourceBars(floor: Floor): ResourceBar[] {
  const named: Resource[] = floor.resources.length > 0 ? floor.resources : [{ bound: floor.bound, us: floor.us, amount: null }];
  return named
    .filter(({ us }) => us > 0)
    .map((resource) => ({
      name: NAMES[resource.bound],
      amount: amount(resource),
      us: resource.us,
      share: resource.us / floor.found_us,
      bounds: resource.bound === floor.bound,
    }))
    .toSorted((one, other) => other.us - one.us);
}

export interface RooflinePoint {
  name: string;
  /** Operations per byte that must move. */
  intensity: number;
  /** Operations per second, in the time found and in the least time possible at this intensity. */
  found: number;
  possible: number;
  x: number;
  y: number;
}

/** A roofline chart on two logarithmic axes. Places are shares of the chart's width and height, from its lower left corner. */
export interface Roofline {
  points: RooflinePoint[];
  /** Bytes per second of the memory and operations per second of the fastest units. */
  bandwidth: number;
  peak: number;
  /** The corners of the roof, from left to right: it rises with the bandwidth up to the peak. */
  roof: [number, number][];
}

/** How far the axes reach beyond the outermost point, as a factor. */
const MARGIN = 3;

/** The roofline of a task with operations; null where none are stated, or nothing has to come from memory. */
export function roofline(floors: readonly Floor[]): Roofline | null {
  const cases = floors.flatMap((floor) => {
    const [memory, arithmetic] = (["bytes", "operations"] as const).map((bound) => floor.resources.find((one) => one.bound === bound));
    if (!memory?.amount || !arithmetic?.amount || memory.us <= 0 || arithmetic.us <= 0 || floor.found_us <= 0) return [];
    const [moved, operations] = [memory.amount, arithmetic.amount];
    return [{ name: caseName(floor), intensity: operations / moved, found: (operations / floor.found_us) * 1e6, bandwidth: (moved / memory.us) * 1e6, peak: (operations / arithmetic.us) * 1e6 }];
  });
  const [first] = cases;
  if (!first) return null;
  // The rates are the device's, so that every case has the same.
  const { bandwidth, peak } = first;
  const ridge = peak / bandwidth;
  const possible = (intensity: number) => Math.min(peak, intensity * bandwidth);
  const [left, right] = [Math.min(ridge, ...cases.map(({ intensity }) => intensity)) / MARGIN, Math.max(ridge, ...cases.map(({ intensity }) => intensity)) * MARGIN];
  const [low, high] = [Math.min(possible(left), ...cases.map(({ found }) => found)) / MARGIN, peak * MARGIN];
  const along = (value: number, from: number, to: number) => Math.log(value / from) / Math.log(to / from);
  const place = (intensity: number, rate: number): [number, number] => [along(intensity, left, right), along(rate, low, high)];
  return {
    points: cases.map(({ name, intensity, found }) => {
      const [x, y] = place(intensity, found);
      return { name, intensity, found, possible: possible(intensity), x, y };
    }),
    bandwidth,
    peak,
    roof: [place(left, possible(left)), place(ridge, peak), place(right, peak)],
  };
}
