// The outline of each operator, around the origin, as an SVG path: for the legend, and for the canvas.

import type { Operator } from "../api/types";

export function outline(operator: Operator["operator"], r: number): string {
  const points = (...at: [number, number][]) => `M${at.map(([x, y]) => `${x * r} ${y * r}`).join("L")}Z`;
  switch (operator) {
    case "baseline":
      return points([-0.95, -0.95], [0.95, -0.95], [0.95, 0.95], [-0.95, 0.95]);
    case "step":
      return `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`;
    case "sweep":
      return points([0, -1.22], [1.22, 0], [0, 1.22], [-1.22, 0]);
    case "init":
      return points([0, -1.3], [1.24, 0.88], [-1.24, 0.88]);
    case "edit":
    case "mutation":
    case "improve":
    case "retune":
      return points([0, 1.3], [1.24, -0.88], [-1.24, -0.88]);
    case "crossover":
    case "explore": {
      const [arm, reach] = [0.52, 1.14];
      return points([-arm, -reach], [arm, -reach], [arm, -arm], [reach, -arm], [reach, arm], [arm, arm], [arm, reach], [-arm, reach], [-arm, arm], [-reach, arm], [-reach, -arm], [-arm, -arm]);
    }
    case "repair":
      return points([0, -1.14], [1.08, -0.35], [0.67, 0.95], [-0.67, 0.95], [-1.08, -0.35]);
    default:
      return points([1.12, 0], [0.56, 0.97], [-0.56, 0.97], [-1.12, 0], [-0.56, -0.97], [0.56, -0.97]);
  }
}
