// Ids of candidates that are known by their ordinal alone, because the answers about large runs hold no other.

/** The id of the candidate with an ordinal of a run. */
export function provisionalId(run: string, ordinal: number): string {
  return `${run}/${ordinal}`;
}

/** The run and the ordinal of a provisional id; null for an id of the service. */
export function parseProvisionalId(id: string): { run: string; ordinal: number } | null {
  const [run, ordinal] = id.split("/");
  return run && ordinal !== undefined ? { run, ordinal: Number(ordinal) } : null;
}
