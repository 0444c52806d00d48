// Speedups as steps of a colour ramp. The colours themselves are custom properties of the theme.

/** Steps of the ramp for candidates that are at least as fast as the baseline. */
export const RAMP_STEPS = 7;
/** Within this share of the baseline a candidate counts as equally fast. */
const EQUAL = 0.98;

export type RampStep = "slow" | number;

/** The step of a speedup; the last step is that of the run's best. Steps are even in the logarithm. */
export function rampStep(speedup: number, best: number): RampStep {
  if (speedup < EQUAL) return "slow";
  if (speedup <= 1 || best <= 1) return 0;
  const share = Math.log(speedup) / Math.log(Math.max(best, speedup));
  return Math.min(RAMP_STEPS - 1, Math.floor(share * RAMP_STEPS));
}

/** The lowest speedup of each step, for the legend. */
export function rampBounds(best: number): number[] {
  const top = Math.log(Math.max(best, 1));
  return Array.from({ length: RAMP_STEPS }, (_, step) => Math.exp((top * step) / RAMP_STEPS));
}
