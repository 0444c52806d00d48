// The best speedup so far of a run as a small line: of its shape only, without axes.

/** Width and height of the line's box. */
export const SPARK = { width: 72, height: 16 };

/** The path of a best-so-far curve in equal buckets; it rises from the baseline at the bottom to the best at the top. Empty without two speedups that differ. */
export function sparkline(best: readonly (number | null)[]): string {
  const known = best.flatMap((speedup, at) => (speedup === null ? [] : [{ speedup, at }]));
  const [first] = known;
  const last = known.at(-1);
  if (!first || !last || last.speedup <= first.speedup) return "";
  const x = (at: number) => ((SPARK.width * at) / Math.max(1, best.length - 1)).toFixed(1);
  const y = (speedup: number) => (1 + (SPARK.height - 2) * (1 - (speedup - first.speedup) / (last.speedup - first.speedup))).toFixed(1);
  const steps = known.slice(1).map(({ speedup, at }) => `H${x(at)}V${y(speedup)}`);
  return `M${x(first.at)} ${y(first.speedup)}${steps.join("")}H${x(best.length - 1)}`;
}
