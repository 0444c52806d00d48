import { describe, expect, it } from "vitest";

import type { TaskAdmission } from "../api/types";
import { admissionsOf, brokenFirst, ruleName } from "./admission";

const result = (subject: string, holds: boolean) => ({ rule: "not_near_zero" as const, subject, found: 1, limit: 0.01, holds, says: "" });

const admission = (content: string, device: string): TaskAdmission => ({
  content,
  device,
  toolchain: "NVRTC",
  decided_at: "2026-11-27T09:00:00Z",
  admitted: true,
  admission: { task: "t", version: "v", cases: [], points: [], floors: [], advice: [] },
});

describe("an admission", () => {
  it("names its rules and lists the broken ones first", () => {
    const results = [result("a", true), result("b", false), result("c", true), result("d", false)];
    expect(brokenFirst(results).map(({ subject }) => subject)).toEqual(["b", "d", "a", "c"]);
    expect(ruleName("varies_with_seeds")).toBe("varies with draws");
  });

  it("is that of the newest upload, or else the newest of any", () => {
    const all = [admission("new", "L4"), admission("new", "H100"), admission("old", "L4")];
    expect(admissionsOf("new", all)).toEqual({ own: true, shown: all.slice(0, 2) });
    expect(admissionsOf("unknown", all)).toEqual({ own: false, shown: [all[0]] });
    expect(admissionsOf("unknown", [])).toEqual({ own: false, shown: [] });
  });
});
