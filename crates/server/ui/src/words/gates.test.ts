import { expect, it } from "vitest";

import type { GateOutcome } from "../api/types";
import { gateFound } from "./gates";

function gate(subject: GateOutcome["subject"], found: number): GateOutcome {
  return { subject, phase: null, case: null, min: null, max: null, found, met: true, enforce: "advise" };
}

it("calls the value that a gate found modelled where the time model gives it", () => {
  expect(gateFound(gate("dram_percent", 41.26))).toBe("41.3% modelled");
  expect(gateFound(gate("bank_conflict_percent", 0))).toBe("0% modelled");
  expect(gateFound(gate("registers", 64))).toBe("64 registers");
  expect(gateFound(gate("ctas_per_sm", 4.5))).toBe("4.5 CTAs/SM");
});
