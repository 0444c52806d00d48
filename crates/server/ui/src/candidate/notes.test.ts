import { expect, it } from "vitest";

import { evaluation, finding } from "../samples";
import { notes, place } from "./notes";

it("puts both parties of a race at their lines", () => {
  const remarks = notes(evaluation({ kind: "data_race", finding: finding() }));
  expect(remarks.get(12)?.[0]).toMatchObject({ decisive: true, title: "shared race" });
  expect(remarks.get(20)?.[0]?.message).toBe("thread (32, 0, 0) of block (3, 0, 0) is here");
});

it("says once what the verdict and the findings both say", () => {
  const found = finding();
  const remarks = notes(evaluation({ kind: "data_race", finding: found }, { findings: [found] }));
  expect(remarks.get(12)).toHaveLength(1);
});

it("marks errors of the compiler as decisive and warnings as not", () => {
  const diagnostics = [
    { line: 4, severity: "error" as const, message: "no such name" },
    { line: 9, severity: "warning" as const, message: "unused" },
    { line: null, severity: "error" as const, message: "without a place" },
  ];
  const remarks = notes(evaluation({ kind: "compile_rejected", diagnostics }));
  expect([...remarks].map(([line, [note]]) => [line, note?.decisive])).toEqual([
    [4, true],
    [9, false],
  ]);
});

it("gives the fix of a malformed file, and leaves defects of the whole file to the verdict", () => {
  const problem = { file: "a.cu", line: 3, column: 1, message: "no grid", fix: "add grid" };
  const remarks = notes(evaluation({ kind: "parse_rejected", problems: [problem, { ...problem, line: 0 }] }));
  expect([...remarks.keys()]).toEqual([3]);
  expect(remarks.get(3)?.[0]?.details).toEqual(["add grid"]);
});

it("says where a finding happened", () => {
  expect(place(finding())).toEqual([
    "kernel softmax",
    "block (3, 0, 0), thread (33, 0, 0)",
    "buffer part, byte 4",
    "against block (3, 0, 0), thread (32, 0, 0), line 20",
    "1,536 times at this line",
  ]);
  expect(place(finding({ buffer: null, offset: null, other: null, occurrences: 1 }))).toHaveLength(2);
});
