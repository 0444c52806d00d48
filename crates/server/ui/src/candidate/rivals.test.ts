import { expect, it } from "vitest";

import { rivals } from "./rivals";

const of = (id: string) => ({ id });
const best = (candidate: string) => ({ best: { candidate, title: "", speedup: 2, interval: null, time_us: 1, modelled: true } });

it("names each rival once, with all that it is", () => {
  expect(rivals(of("a"), { parent: of("b"), incumbent: of("b"), run: best("c") })).toEqual([
    { id: "b", names: ["parent", "incumbent"] },
    { id: "c", names: ["best of the run"] },
  ]);
});

it("compares nothing with itself, and nothing with what is not known", () => {
  expect(rivals(of("a"), { parent: null, incumbent: null, run: best("a") })).toEqual([]);
  expect(rivals(of("a"), { parent: null, incumbent: null, run: null })).toEqual([]);
});
