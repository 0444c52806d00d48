import { describe, expect, it } from "vitest";

import * as format from "./format";

describe("quantities carry their unit", () => {
  it.each([
    [0, "$0"],
    [0.000_03, "$0.00003"],
    [0.012_34, "$0.0123"],
    [0.5, "$0.50"],
    [12, "$12"],
    [1234.567, "$1,234.57"],
  ])("%d dollars", (amount, text) => expect(format.dollars(amount)).toBe(text));

  it.each([
    [0.0421, "0.0421 µs"],
    [10.246, "10.2 µs"],
    [999.4, "999 µs"],
    [1_234, "1.23 ms"],
    [3_000_000, "3 s"],
  ])("%d microseconds", (us, text) => expect(format.microseconds(us)).toBe(text));

  it.each([
    [0, "0 candidates"],
    [1, "1 candidate"],
    [1_500, "1,500 candidates"],
  ])("%d candidates are counted with their noun", (number, text) => expect(format.candidates(number)).toBe(text));

  it.each([
    [0, "0 B"],
    [372, "372 B"],
    [49_152, "48 KiB"],
    [101_376, "99 KiB"],
    [24_152_899_584, "22.5 GiB"],
  ])("%d bytes", (size, text) => expect(format.bytes(size)).toBe(text));

  it.each([
    [0, "0 s"],
    [59, "59 s"],
    [3_600, "1 h"],
    [7_500, "2 h 5 min"],
    [90_061, "1 d 1 h"],
  ])("a span of %d seconds", (seconds, text) => expect(format.span(seconds)).toBe(text));

  it.each([
    [0.812, "0.81×"],
    [9.994, "9.99×"],
    [11.83, "11.8×"],
  ])("a speedup of %d", (ratio, text) => expect(format.speedup(ratio)).toBe(text));
});

describe("numbers", () => {
  it("give an interval by its ends", () => {
    expect(format.range([1.4, 2.6], format.speedup)).toBe("1.40× to 2.60×");
  });

  it.each([
    [0, "0"],
    [0.412, "0.412"],
    [0.00004, "4.0\u00a0·\u00a010⁻⁵"],
    [1.7e-7, "1.7\u00a0·\u00a010⁻⁷"],
    [2.5e12, "2.5\u00a0·\u00a010¹²"],
  ])("%d as an error", (value, text) => expect(format.scientific(value)).toBe(text));

  it.each([
    [128, "128"],
    [9_999, "9,999"],
    [12_345, "12.3 k"],
    [4_718_592, "4.72 M"],
    [3e9, "3 G"],
  ])("%d counted", (value, text) => expect(format.compact(value)).toBe(text));

  it("leaves trailing ones of a grid out, and never all of it", () => {
    expect(format.extents([4096, 1, 1])).toBe("4,096");
    expect(format.extents([2, 1, 8])).toBe("2 × 1 × 8");
    expect(format.extents([1, 1, 1])).toBe("1");
  });

  it("reads a driver's version", () => {
    expect(format.cudaVersion(13_000)).toBe("13.0");
    expect(format.cudaVersion(12_080)).toBe("12.8");
  });
});

it.each([
  [2_000, "just now"],
  [42_000, "42 s ago"],
  [61_000, "1 min ago"],
  [7_200_000, "2 h ago"],
  [200_000_000, "2 d ago"],
])("%d ms before now", (age, text) => expect(format.ago(1e12 - age, 1e12)).toBe(text));

describe("a finding's line is written once", () => {
  it.each([
    [{ line: null, message: "1 error without a description" }, "1 error without a description"],
    [{ line: 41, message: "Invalid read" }, "line 41: Invalid read"],
    [{ line: 24, message: "reads 4 bytes past the end of `x`, at line 24" }, "reads 4 bytes past the end of `x`, at line 24"],
    [{ line: 2, message: "conflicts with line 24" }, "line 2: conflicts with line 24"],
    [{ line: 24, message: "an instruction of PTX line 24" }, "line 24: an instruction of PTX line 24"],
  ])("%o", (finding, text) => expect(format.located(finding)).toBe(text));
});
