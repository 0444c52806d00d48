// Hours of devices by month: the sum of each month, and the rows of its workers.

import type { DeviceMonth } from "../api/types";

export interface Month {
  month: string;
  attached: number;
  evaluating: number;
  dollars: number;
  devices: DeviceMonth[];
}

/** The months of the rows in their order, with their sums. */
export function byMonth(rows: readonly DeviceMonth[]): Month[] {
  const months = new Map<string, Month>();
  for (const row of rows) {
    const found = months.get(row.month) ?? { month: row.month, attached: 0, evaluating: 0, dollars: 0, devices: [] };
    found.attached += row.attached_hours;
    found.evaluating += row.evaluating_hours;
    found.dollars += row.dollars;
    found.devices.push(row);
    months.set(row.month, found);
  }
  return [...months.values()];
}

/** A number of hours with two digits, as bills have it. */
export function hours(value: number): string {
  return `${value.toFixed(2)} h`;
}
