import { expect, it } from "vitest";

import type { CandidateDetail } from "../api/types";
import { relatives } from "./relatives";

type Named = Pick<CandidateDetail, "parents" | "children" | "state" | "calls">;

it("names each candidate once, and of many children the first", () => {
  const children = Array.from({ length: 300 }, (_, at) => `child ${at}`);
  const seen = { best: "best", parents: ["parent"], insights: ["one", "best"], duplicates: [] };
  const named: Named = { parents: ["parent"], children, state: { state: "duplicate", of: "original" }, calls: [{ seen } as unknown as CandidateDetail["calls"][number]] };
  expect(relatives(named)).toEqual(["parent", "original", "best", "one", ...children.slice(0, 100)]);
});
