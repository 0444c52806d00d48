// The quantities that gates limit, in words and units.

import type { GateOutcome, GateSubject } from "../api/types";
import { bytes, count } from "./format";

interface Word {
  name: string;
  quantity: (value: number) => string;
  // True if the value found comes from the emulated device's counters and time model.
  modelled?: boolean;
}

const percent = (value: number): string => `${count(Number(value.toFixed(1)))}%`;

const WORDS: Record<GateSubject, Word> = {
  ctas_per_sm: { name: "CTAs per SM", quantity: (value) => `${count(Number(value.toFixed(2)))} CTAs/SM` },
  registers: { name: "registers of a thread", quantity: (value) => `${count(value)} registers` },
  spill_bytes: { name: "register spills", quantity: bytes },
  static_shared_bytes: { name: "static shared memory", quantity: bytes },
  tensor_percent: { name: "tensor cores busy", quantity: percent, modelled: true },
  sm_percent: { name: "multiprocessors busy", quantity: percent, modelled: true },
  l2_percent: { name: "second level cache busy", quantity: percent, modelled: true },
  dram_percent: { name: "device memory busy", quantity: percent, modelled: true },
  bank_conflict_percent: { name: "bank conflicts", quantity: percent, modelled: true },
};

export function gateName(subject: GateSubject): string {
  return WORDS[subject].name;
}

export function gateFound(gate: GateOutcome): string {
  const { quantity, modelled } = WORDS[gate.subject];
  return modelled ? `${quantity(gate.found)} modelled` : quantity(gate.found);
}

export function gateExpected({ subject, min, max }: Pick<GateOutcome, "subject" | "min" | "max">): string {
  const { quantity } = WORDS[subject];
  if (min !== null && max !== null) return `${quantity(min)} to ${quantity(max)}`;
  if (min !== null) return `at least ${quantity(min)}`;
  return max === null ? "anything" : `at most ${quantity(max)}`;
}
