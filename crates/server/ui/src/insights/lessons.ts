// Insights of a run as lessons: the same thought once, with all its evidence, and the evidence that
// contradicts it.

import type { Insight, SteeringEntry } from "../api/types";

export type Kind = "win" | "trap" | "open";

export interface Lesson {
  thought: string;
  kind: Kind;
  /** The candidates whose authors had the thought, the earliest first. */
  sources: Insight[];
  /** Prompts that showed it, readers with a verdict, and readers that beat the best that they saw. */
  shown: number;
  judged: number;
  wins: number;
  /** Why the evidence points both ways; empty where it does not. */
  contradictions: string[];
  /** The text that prompts show in its place, if a person corrected it. */
  corrected: string | null;
  /** True if a person left it out of prompts. */
  isLeftOut: boolean;
  /** The number of the direction by which every further prompt carries it; null if none does. */
  pinned: number | null;
}

/** The thought as it counts for being the same: letters and digits, without case. */
function gist(thought: string): string {
  return thought
    .toLowerCase()
    .replace(/[^\p{L}\p{N}.%]+/gu, " ")
    .replace(/\.(?=\s|$)/g, "")
    .trim();
}

/** The lessons: wins first, then traps, then the rest; each kind by the number of its readers. `directions` are the run's. */
export function lessons(insights: readonly Insight[], directions: readonly SteeringEntry[] = []): Lesson[] {
  const groups = new Map<string, Insight[]>();
  for (const insight of insights) {
    const key = gist(insight.thought);
    groups.set(key, [...(groups.get(key) ?? []), insight]);
  }
  const lasting = directions.flatMap((entry) => (entry.kind === "hint" && entry.prompts === null && entry.withdrawn_by === null ? [entry] : []));
  const hints = new Map(lasting.map(({ text, entry }) => [gist(text), entry]));
  const made = [...groups.values()].map((group) => lesson(group.toSorted((one, other) => one.ordinal - other.ordinal), hints));
  const order: Kind[] = ["win", "trap", "open"];
  return made.toSorted((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind) || other.wins - one.wins || other.judged - one.judged);
}

function lesson(sources: Insight[], hints: ReadonlyMap<string, number>): Lesson {
  const sum = (of: (insight: Insight) => number) => sources.reduce((total, insight) => total + of(insight), 0);
  const [shown, judged, wins] = [sum((one) => one.shown), sum((one) => one.judged), sum((one) => one.wins)];
  const accepted = sources.filter(({ speedup }) => speedup !== null);
  const failed = sources.filter(({ speedup, verdict }) => speedup === null && verdict !== null);
  const faster = sources.some(({ uplift }) => uplift !== null && uplift > 1);
  const slower = sources.some(({ uplift }) => uplift !== null && uplift < 1);
  const allFailed = failed.length > 0 && accepted.length === 0;
  const kind: Kind = wins > 0 ? "win" : allFailed || slower ? "trap" : "open";
  const contradictions = [
    ...(accepted.length > 0 && failed.length > 0 ? [`${accepted.length} accepted, ${failed.length} failed`] : []),
    ...(wins > 0 && allFailed ? ["readers won with it, and its own candidate failed"] : []),
    ...(wins > 0 && slower ? ["some readers won with it, and readers were slower than others in all"] : []),
    ...(faster && slower ? ["readers were faster than others after one source, and slower after another"] : []),
  ];
  const edited = sources.filter(({ edit }) => edit !== null);
  const corrected = edited.find((source) => source.corrected !== null)?.corrected ?? null;
  const isLeftOut = edited.length === sources.length && corrected === null;
  const thought = sources[0]?.thought ?? "";
  const pinned = hints.get(gist(corrected ?? thought)) ?? null;
  return { corrected, isLeftOut, pinned, thought, kind, sources, shown, judged, wins, contradictions };
}
