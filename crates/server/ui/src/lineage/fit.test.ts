import { expect, it } from "vitest";

import { fitted } from "./fit";

const monospaced = (text: string) => text.length * 10;

it.each([
  ["short", 50, "short"],
  ["a longer title", 80, "a longe…"],
  ["a longer title", 90, "a longer…"],
  ["title", 5, "…"],
])("cuts %s to %d px", (text, width, shown) => expect(fitted(text, width, monospaced)).toBe(shown));
