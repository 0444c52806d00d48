import { expect, it } from "vitest";

import { highlight } from "./tokens";

const SOURCE = `/*---
[idea]
title = "split" # why
hypothesis = """
not = a key
"""
gain = [1.5, 6.0]
---*/
#include <cuda_fp16.h>
/* one
   two */ constexpr int D = 0x40u; // rest
extern "C" __global__ void k(float4* p, const char* s = "a // no comment") {
    int i = threadIdx.x; p[i] = make_float4(1e-3f, .5f, 2.0f, 1'000); /**/ int whole;
}`;

const lines = highlight(SOURCE);

function kinds(line: number): [string, string][] {
  return (lines[line - 1] ?? []).filter(({ kind }) => kind !== "plain").map(({ kind, text }) => [kind, text.trim()]);
}

it("loses and adds nothing", () => {
  expect(lines.map((line) => line.map(({ text }) => text).join("")).join("\n")).toBe(SOURCE);
});

it("reads the front matter as TOML", () => {
  expect(kinds(2)).toEqual([["keyword", "[idea]"]]);
  expect(kinds(3)).toEqual([["key", "title"], ["string", '"split"'], ["comment", "# why"]]);
  expect(kinds(5)).toEqual([["string", "not = a key"]]);
  expect(kinds(7)).toEqual([["key", "gain"], ["number", "1.5"], ["number", "6.0"]]);
});

it("follows a comment over lines", () => {
  expect(kinds(10)).toEqual([["comment", "/* one"]]);
  expect(kinds(11)).toEqual([
    ["comment", "two */"],
    ["keyword", "constexpr"],
    ["type", "int"],
    ["number", "0x40u"],
    ["comment", "// rest"],
  ]);
});

it("knows CUDA's words and leaves comment signs in strings alone", () => {
  expect(kinds(12)).toEqual([
    ["keyword", "extern"],
    ["string", '"C"'],
    ["keyword", "__global__"],
    ["type", "void"],
    ["type", "float4"],
    ["keyword", "const"],
    ["type", "char"],
    ["string", '"a // no comment"'],
  ]);
  expect(kinds(13)).toEqual([
    ["type", "int"],
    ["builtin", "threadIdx"],
    ["builtin", "make_float4"],
    ["number", "1e-3f"],
    ["number", ".5f"],
    ["number", "2.0f"],
    ["number", "1'000"],
    ["comment", "/**/"],
    ["type", "int"],
  ]);
});
