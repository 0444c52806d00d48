import { expect, it } from "vitest";

import { mix } from "./mix";

it("tells the most frequent instructions first, and the rest as one", () => {
  expect(mix({ BRA: 1, FFMA: 64, LDS: 16, EXIT: 1 })).toBe("64 FFMA, 16 LDS, 1 BRA, 1 EXIT".replaceAll(/(?<=\d) /g, "\u00a0"));
  const many = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`I${at}`, 10 - at]));
  expect(mix(many)).toBe("10 I0, 9 I1, 8 I2, 7 I3, 6 I4, 5 I5, 4 I6, 3 I7, 3 others".replaceAll(/(?<=\d) /g, "\u00a0"));
  expect(mix({})).toBe("");
});
