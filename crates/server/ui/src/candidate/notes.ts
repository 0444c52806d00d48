// Notes of an evaluation on lines of the source, grouped by line, so that the reader meets
// each remark where it belongs.

import type { Evaluation, Finding } from "../api/types";
import { index, words } from "../words/format";

export interface Note {
  /** True if the verdict rests on it. */
  decisive: boolean;
  title: string;
  message: string;
  details: string[];
}

/** Notes by line of the candidate's file. */
export function notes(evaluation: Evaluation): Map<number, Note[]> {
  const byLine = new Map<number, Note[]>();
  const add = (line: number | null, note: Note) => {
    if (line === null || line < 1) return;
    const there = byLine.get(line) ?? [];
    if (!there.some((other) => other.message === note.message)) byLine.set(line, [...there, note]);
  };
  const { verdict } = evaluation;
  switch (verdict.kind) {
    case "parse_rejected":
    case "policy_rejected":
      for (const { line, message, fix } of verdict.problems) {
        add(line, { decisive: true, title: "problem", message, details: fix ? [fix] : [] });
      }
      break;
    case "compile_rejected":
      for (const { line, message, severity } of verdict.diagnostics) {
        add(line, { decisive: severity === "error", title: severity, message, details: [] });
      }
      break;
    case "unsupported":
      add(verdict.line, {
        decisive: true,
        title: "unsupported instruction",
        message: `the emulated device lacks ${verdict.opcode}`,
        details: [],
      });
      break;
    default: {
      const finding = "finding" in verdict ? verdict.finding : null;
      if (finding) add(finding.line, noteOf(finding, true));
      if (finding?.other?.line && finding.other.line !== finding.line) {
        add(finding.other.line, {
          decisive: true,
          title: "other party",
          message: `thread ${index(finding.other.thread)} of block ${index(finding.other.block)} is here`,
          details: [],
        });
      }
    }
  }
  for (const finding of evaluation.findings) add(finding.line, noteOf(finding, false));
  for (const { line, severity, message } of evaluation.diagnostics) {
    add(line, { decisive: false, title: severity, message, details: [] });
  }
  for (const { line, message, fix } of evaluation.flags ?? []) {
    add(line, { decisive: false, title: "pointed out", message, details: fix ? [fix] : [] });
  }
  return byLine;
}

function noteOf(finding: Finding, decisive: boolean): Note {
  return { decisive, title: words(finding.kind), message: finding.message, details: place(finding) };
}

/** The place of a finding, in words. */
export function place(finding: Finding): string[] {
  const made = [`kernel ${finding.kernel}`, `block ${index(finding.block)}, thread ${index(finding.thread)}`];
  if (finding.buffer !== null) {
    made.push(finding.offset === null ? `buffer ${finding.buffer}` : `buffer ${finding.buffer}, byte ${finding.offset}`);
  }
  if (finding.other) {
    const line = finding.other.line === null ? "" : `, line ${finding.other.line}`;
    made.push(`against block ${index(finding.other.block)}, thread ${index(finding.other.thread)}${line}`);
  }
  if (finding.occurrences > 1) made.push(`${finding.occurrences.toLocaleString("en")} times at this line`);
  return made;
}
