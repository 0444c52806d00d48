import { describe, expect, it } from "vitest";

import type { DeviceMonth } from "../api/types";
import { byMonth, hours } from "./hours";

const row = (month: string, worker: string, attached_hours: number, dollars: number): DeviceMonth => ({ month, worker, uuid: worker, device: "NVIDIA L4", attached_hours, evaluating_hours: attached_hours / 2, dollars });

describe("hours of devices", () => {
  it("are added up by month, in the order of the rows", () => {
    const months = byMonth([row("2026-11", "ada", 10, 7), row("2026-11", "bob", 2, 0), row("2026-10", "ada", 1, 0.7)]);
    expect(months.map(({ month, attached, evaluating, dollars, devices }) => [month, attached, evaluating, dollars, devices.length])).toEqual([
      ["2026-11", 12, 6, 7, 2],
      ["2026-10", 1, 0.5, 0.7, 1],
    ]);
    expect(byMonth([])).toEqual([]);
    expect(hours(0.126)).toBe("0.13 h");
  });
});
