// The choice of two runs in a list, as the address keeps it.

/** The number of runs that a comparison takes. */
const SIDES = 2;

/** Reads the ids of an address: `first,second`. What is no id, and all beyond the second, is left out. */
export function parseChoice(text: string | null): string[] {
  const ids = (text ?? "").split(",").filter((part) => /^[0-9a-f-]{36}$/.test(part));
  return [...new Set(ids)].slice(0, SIDES);
}

export function isFull(chosen: readonly string[]): boolean {
  return chosen.length === SIDES;
}

/** The choice with a run added or, if it was chosen, taken out. */
export function toggled(chosen: readonly string[], id: string): string[] {
  return chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen, id].slice(0, SIDES);
}
