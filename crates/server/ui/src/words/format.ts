// Numbers and times as people read them. Every function that prints a quantity prints its unit.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 20 });

/** Three significant digits, never in exponent notation. */
export function significant(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return grouped.format(Number(value.toFixed(Math.min(digits, 20))));
}

/** A whole number with its thousands apart. */
export function count(value: number): string {
  return grouped.format(value);
}

/** A number of candidates, with the noun in its form. */
export function candidates(number: number): string {
  return `${count(number)} ${number === 1 ? "candidate" : "candidates"}`;
}

/** A large count in three digits: 1.24 M. */
export function compact(value: number): string {
  const steps: [number, string][] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ];
  const step = steps.find(([size]) => Math.abs(value) >= size);
  if (!step) return count(value);
  const [size, suffix] = step;
  return `${significant(value / (suffix === "k" ? 1e3 : size))} ${suffix}`;
}

/** A ratio of times. */
export function speedup(ratio: number): string {
  return `${ratio < 10 ? ratio.toFixed(2) : ratio.toFixed(1)}×`;
}

/** An interval by its ends. */
export function range(ends: readonly number[], quantity: (value: number) => string): string {
  return ends.map(quantity).join(" to ");
}

/** A time given in microseconds. */
export function microseconds(us: number): string {
  if (us >= 1e6) return `${significant(us / 1e6)} s`;
  if (us >= 1e3) return `${significant(us / 1e3)} ms`;
  return `${significant(us)} µs`;
}

/** A time given in milliseconds. */
export function milliseconds(ms: number): string {
  return microseconds(ms * 1e3);
}

/** A span given in seconds: 2 h 5 min. */
export function span(seconds: number): string {
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [Math.floor(seconds) % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(" ");
}

/** A size in bytes, in binary units. */
export function bytes(size: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${significant(size)} ${units[unit]}`;
}

/** An amount of US dollars: cents from ten cents on, else three digits that count. */
export function dollars(amount: number): string {
  if (amount === 0) return "$0";
  return `$${Math.abs(amount) >= 0.1 ? grouped.format(Number(amount.toFixed(2))).replace(/\.(\d)$/, ".$10") : significant(amount)}`;
}

/** A share between 0 and 1. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** An error or another number that may be very small. */
export function scientific(value: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) >= 0.01 && Math.abs(value) < 1e4) return significant(value);
  const [mantissa, exponent] = value.toExponential(1).split("e");
  return `${mantissa}\u00a0·\u00a010${superscript(Number(exponent))}`;
}

function superscript(exponent: number): string {
  const digits = [..."⁰¹²³⁴⁵⁶⁷⁸⁹"];
  const text = [...String(Math.abs(exponent))].map((digit) => digits[Number(digit)]).join("");
  return exponent < 0 ? `⁻${text}` : text;
}

/** Extents of a grid or block; trailing ones are left out. */
export function extents(axes: readonly number[]): string {
  const last = axes.findLastIndex((axis) => axis !== 1);
  return axes
    .slice(0, Math.max(1, last + 1))
    .map(count)
    .join(" × ");
}

/** A block or thread index. */
export function index(axes: readonly number[]): string {
  return `(${axes.join(", ")})`;
}

/** The CUDA version that a driver's number codes. */
export function cudaVersion(code: number): string {
  return `${Math.floor(code / 1000)}.${Math.floor((code % 1000) / 10)}`;
}

/** The time between `then` and `now` in words; both are milliseconds since the epoch. */
export function ago(then: number, now: number): string {
  const seconds = Math.round((now - then) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

/** Values of tunables, as the command line takes them. */
export function configuration(values: Record<string, number>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** A finding's message, behind its source line where the message does not name it. */
export function located(finding: { line?: number | null; message: string }): string {
  const { line, message } = finding;
  // The line in the PTX is another number.
  const isNamed = line == null || new RegExp(`(?<!PTX )line ${line}(?!\\d)`).test(message);
  return isNamed ? message : `line ${line}: ${message}`;
}

/** A case's name and the state of the cache that it begins with. */
export function caseName({ case: name, cache }: { case: string; cache: "cold" | "warm" }): string {
  return cache === "warm" ? `${name}, warm cache` : name;
}

/** A name of the wire as words. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
