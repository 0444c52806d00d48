import { expect, it } from "vitest";

import { isFull, parseChoice, toggled } from "./choice";

const [ONE, TWO, THREE] = [1, 2, 3].map((number) => `0193a2f0-0001-7000-8000-00000000000${number}`) as [string, string, string];

it("reads the choice of an address", () => {
  expect(parseChoice(null)).toEqual([]);
  expect(parseChoice(`${TWO},${ONE}`)).toEqual([TWO, ONE]);
  expect(parseChoice(`${ONE},${ONE},<b>,${TWO},${THREE}`)).toEqual([ONE, TWO]);
});

it("adds a run until there are two, and takes one out again", () => {
  expect(toggled([], ONE)).toEqual([ONE]);
  expect(toggled([ONE], TWO)).toEqual([ONE, TWO]);
  expect(isFull(toggled([ONE], TWO))).toBe(true);
  expect(toggled([ONE, TWO], THREE)).toEqual([ONE, TWO]);
  expect(toggled([ONE, TWO], ONE)).toEqual([TWO]);
});
