import { expect, it } from "vitest";

import { parseTags, tagPath } from "./tags";

it("reads tags apart by blanks or commas", () => {
  expect(parseTags(" paper-2026, l4:spot\tworn ,")).toEqual(["paper-2026", "l4:spot", "worn"]);
  expect(parseTags(" ")).toEqual([]);
});

it("links to the runs with a tag", () => {
  expect(tagPath("l4/spot:größe")).toBe("/?tag=l4%2Fspot%3Agr%C3%B6%C3%9Fe");
});
