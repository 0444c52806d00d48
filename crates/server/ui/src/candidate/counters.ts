// Counters by source line that the emulated device left in the evidence.

import { count } from "../words/format";

/** The executed work of one source line, over all launches of a case. */
export interface LineWork {
  /** Instructions of warps. */
  instructions: number;
  /** Sectors of global memory read or written, and those beyond the least possible. */
  sectors: number;
  excessSectors: number;
  /** Passes through shared memory beyond the least possible. */
  conflicts: number;
}

/** The counters of one score case. */
export interface CaseWork {
  case: string;
  lines: Map<number, LineWork>;
}

interface Recorded {
  cases: { case: string; launches: { lines: { line: number; counters: Record<string, number> }[] }[] }[];
}

/** Reads `counters.json` of a bundle of evidence. */
export function parseCounters(text: string): CaseWork[] {
  const { cases } = JSON.parse(text) as Recorded;
  return cases.map((recorded) => {
    const lines = new Map<number, LineWork>();
    for (const { line, counters } of recorded.launches.flatMap((launch) => launch.lines)) {
      const of = (name: string) => counters[name] ?? 0;
      const beyond = (found: string, least: string) => Math.max(0, of(found) - of(least));
      const known = lines.get(line) ?? { instructions: 0, sectors: 0, excessSectors: 0, conflicts: 0 };
      lines.set(line, {
        instructions: known.instructions + of("warp_instructions"),
        sectors: known.sectors + of("global.sectors_read") + of("global.sectors_written"),
        excessSectors: known.excessSectors + beyond("global.sectors_read", "global.sectors_read_ideal") + beyond("global.sectors_written", "global.sectors_written_ideal"),
        conflicts: known.conflicts + beyond("shared.wavefronts", "shared.wavefronts_ideal"),
      });
    }
    return { case: recorded.case, lines };
  });
}

/** The work of a line in words. */
export function describeWork({ instructions, sectors, excessSectors, conflicts }: LineWork): string {
  const excess = excessSectors > 0 ? `, ${count(excessSectors)} beyond the least` : "";
  return [
    `${count(instructions)} warp instructions`,
    ...(sectors > 0 ? [`${count(sectors)} sectors of global memory${excess}`] : []),
    ...(conflicts > 0 ? [`${count(conflicts)} bank conflicts`] : []),
  ].join("; ");
}
