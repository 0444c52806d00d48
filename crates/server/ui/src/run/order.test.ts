import { expect, it } from "vitest";

import { runView } from "../samples";
import { clicked, ordered, parseOrder, toText } from "./order";

const best = (speedup: number, modelled: boolean) => ({ candidate: "c", title: "t", speedup, interval: null, time_us: 1, modelled });
const runs = [
  runView({ name: "b", best: best(2, true), trials: 3 }),
  runView({ name: "a", best: best(1.2, false), trials: 9 }),
  runView({ name: "d", trials: 5 }),
  runView({ name: "c", best: best(4, true), trials: 1 }),
];
const names = (text: string) => ordered(runs, parseOrder(text)).map(({ name }) => name).join("");

it("sorts by name, by trials, and by the best of measured and of modelled runs apart", () => {
  expect(names("run")).toBe("abcd");
  expect(names("-run")).toBe("dcba");
  expect(names("trials")).toBe("adbc");
  expect(names("best"), "measured, modelled, none").toBe("acbd");
  expect(names("-best")).toBe("abcd");
  expect(names("anything")).toBe("badc");
});

it("is turned around by a second click, and an address keeps it", () => {
  const first = clicked(null, "best");
  expect(toText(first)).toBe("best");
  expect(toText(clicked(first, "best"))).toBe("-best");
  expect(toText(clicked(first, "run"))).toBe("run");
  for (const text of ["run", "-run", "best", "-updated"]) expect(toText(parseOrder(text) ?? first)).toBe(text);
});
