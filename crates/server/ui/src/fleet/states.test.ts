import { expect, it } from "vitest";

import type { FleetWorker } from "../api/types";
import { conditionWords, ORDER, tallyStates } from "./states";

it("counts the states that workers are in, the worst first", () => {
  const workers = ["idle", "busy", "idle", "unwell"].map((state) => ({ state }) as FleetWorker);
  expect(tallyStates(workers)).toEqual([
    { state: "unwell", count: 1 },
    { state: "busy", count: 1 },
    { state: "idle", count: 2 },
  ]);
  expect(ORDER).toHaveLength(6);
});

it("says why a device is set aside", () => {
  expect(conditionWords({ condition: null })).toBe("not checked yet");
  expect(conditionWords({ condition: { state: "well" } })).toBe("well");
  expect(conditionWords({ condition: { state: "quarantined", reason: "it forgets" } })).toBe("set aside: it forgets");
});
