import { expect, it } from "vitest";

import { heat, instructionsByLine, parsePtx as parse, parseSass } from "./code";

const TEXT = `.version 9.5
.visible .entry product(
	.param .u64 product_param_0
)
{
	.reg .pred 	%p<9>;
	.loc	2 9 0
	ld.param.u64 	%rd18, [product_param_0];
	.loc	2 12 5
	setp.ge.s32 	%p1, %r4, %r16;
	@%p3 bra 	$L__BB0_9;

$L__BB0_5:
	.loc	1 7 1
	add.s32 	%r22, %r15, -1;
	.loc	2 12 9
	ret;

}
	.file	1 "/usr/include/cuda_fp16.h"
	.file	2 "/candidate.cu"
`;

it("counts the instructions of each source line of the candidate's file", () => {
  expect([...instructionsByLine(parse(TEXT))]).toEqual([
    [9, 1],
    [12, 3],
  ]);
});

it("keeps every line of the text, and counts no directive or label", () => {
  const lines = parse(TEXT);
  expect(lines.map(({ text }) => text).join("\n") + "\n").toBe(TEXT);
  expect(lines.filter(({ isInstruction }) => isInstruction)).toHaveLength(5);
});

it("is hottest where most instructions are", () => {
  expect([...heat(new Map([[1, 1], [2, 50], [3, 100]]))]).toEqual([
    [1, 0],
    [2, 2],
    [3, 4],
  ]);
  expect(heat(new Map()).size).toBe(0);
});

it("reads SASS with the line before each instruction", () => {
  const lines = parseSass("softmax:\n39\tLDG.E R0, [R2.64]\n\tEXIT\n39\t@!P0 BRA `(.L_x_0)\n\t// 7 further instructions\n");
  expect(lines.map(({ text, source, isInstruction }) => [text.trim(), source, isInstruction])).toEqual([
    ["softmax:", null, false],
    ["LDG.E R0, [R2.64]", 39, true],
    ["EXIT", null, true],
    ["@!P0 BRA `(.L_x_0)", 39, true],
    ["// 7 further instructions", null, false],
  ]);
  expect(instructionsByLine(lines)).toEqual(new Map([[39, 2]]));
});
