import { describe, expect, it } from "vitest";

import type { Control, ControlTally } from "../api/types";
import * as controls from "./controls";

const NONE: ControlTally = { made: 0, screened: 0, promoted: 0, undecided: 0, unfinished: 0, screened_at_most: null, promoted_at_most: null };

describe("controls", () => {
  it("say nothing before the first", () => {
    expect(controls.tally("nvidia", NONE)).toBe("none yet");
    expect(controls.tally("nvidia", { ...NONE, unfinished: 2 })).toBe("none yet, 2 unfinished");
    expect(controls.tally("emulated", NONE)).toBe("none: modelled times have no noise");
  });

  it("are told with bounds that are rounded up", () => {
    const some = { ...NONE, made: 1300, screened: 4, undecided: 1, screened_at_most: 0.007021, promoted_at_most: 0.003644 };
    expect(controls.tally("nvidia", some)).toBe("1,300, 4 screened as faster (at most 0.71\u00a0%), 0 promoted (at most 0.37\u00a0%), 1 undecided");
    expect(controls.atMost(1e-9)).toBe("at most 0.01\u00a0%");
    expect(controls.atMost(1)).toBe("at most 100.00\u00a0%");
  });

  it("name what went wrong", () => {
    const control: Control = { kind: "unfinished", reason: "time was up" };
    expect(controls.outcome(control)).toBe("not finished: time was up");
    expect(controls.isWrong(control)).toBe(false);
  });
});
