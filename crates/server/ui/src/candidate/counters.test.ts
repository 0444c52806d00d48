import { expect, it } from "vitest";

import { describeWork, parseCounters } from "./counters";

const launch = (counters: Record<string, number>) => ({ kernel: "k", lines: [{ line: 7, counters }] });

it("sums the launches of a case by line", () => {
  const first = { warp_instructions: 1000, "global.sectors_read": 40, "global.sectors_read_ideal": 30, "shared.wavefronts": 9, "shared.wavefronts_ideal": 4 };
  const second = { warp_instructions: 500, "global.sectors_written": 8, "global.sectors_written_ideal": 8 };
  const [wide] = parseCounters(JSON.stringify({ modelled_on: "l4", cases: [{ case: "wide", launches: [launch(first), launch(second)] }] }));
  const work = { instructions: 1500, sectors: 48, excessSectors: 10, conflicts: 5 };
  expect(wide).toEqual({ case: "wide", lines: new Map([[7, work]]) });
  expect(describeWork(work)).toBe("1,500 warp instructions; 48 sectors of global memory, 10 beyond the least; 5 bank conflicts");
  expect(describeWork({ instructions: 2, sectors: 0, excessSectors: 0, conflicts: 0 })).toBe("2 warp instructions");
});
