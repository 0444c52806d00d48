// The mix of instructions in a kernel's machine code, in a few words.

/** Names told one by one. */
const TOLD = 8;

export function mix(counts: Record<string, number>): string {
  const sorted = Object.entries(counts).sort(([one, few], [other, many]) => many - few || one.localeCompare(other));
  const told = sorted.slice(0, TOLD).map(([name, times]) => `${times}\u00a0${name}`);
  const rest = sorted.slice(TOLD).reduce((sum, [, times]) => sum + times, 0);
  return [...told, ...(rest > 0 ? [`${rest}\u00a0others`] : [])].join(", ");
}
