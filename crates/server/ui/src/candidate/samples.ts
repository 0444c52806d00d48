// The distribution of a timed comparison as values on one axis: what each round found, the decision's interval, and
// each case's times beside the incumbent's.

import type { Measurement, Timing } from "../api/types";
import { caseName } from "../words/format";

export interface Spread {
  /** Gains of the rounds, as shares: 0.03 is 3 % faster. */
  rounds: number[];
  interval: [number, number];
  effect: number;
  /** The gain that was needed. */
  margin: number;
  low: number;
  high: number;
}

/** The rounds of a comparison with an axis that holds them, the interval, the margin and zero. */
export function spread({ rounds, settled }: Measurement): Spread {
  const gain = (logarithm: number) => Math.expm1(logarithm);
  const { effect, interval, margin } = settled.evidence;
  const gains = rounds.flat().map(gain);
  const bounds: [number, number] = [gain(interval.lower), gain(interval.upper)];
  let [low, high] = [0, gain(margin)];
  for (const value of [...gains, ...bounds]) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const pad = 0.06 * Math.max(1e-4, high - low);
  return { rounds: gains, interval: bounds, effect: gain(effect), margin: gain(margin), low: low - pad, high: high + pad };
}

/** The times of one case: median and quartiles in microseconds. */
export interface Times {
  median: number;
  quartiles: [number, number];
  samples: number;
}

export interface CaseTimes {
  name: string;
  candidate: Times;
  incumbent: Times;
  low: number;
  high: number;
}

/** The cases that were measured of both, each with an axis of its own. */
export function caseTimes(candidate: Timing | null, incumbent: Timing): CaseTimes[] {
  if (candidate?.kind !== "measured" || incumbent.kind !== "measured") return [];
  return candidate.cases.flatMap((own) => {
    const other = incumbent.cases.find((entry) => entry.case === own.case && entry.cache === own.cache);
    if (!other) return [];
    const [one, two] = [own, other].map(({ median_us, quartiles_us, samples }): Times => ({ median: median_us, quartiles: [quartiles_us[0] ?? median_us, quartiles_us[1] ?? median_us], samples }));
    if (!one || !two) return [];
    const all = [...one.quartiles, ...two.quartiles, one.median, two.median];
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const pad = 0.08 * Math.max(1e-6, most - least);
    return [{ name: caseName(own), candidate: one, incumbent: two, low: least - pad, high: most + pad }];
  });
}
