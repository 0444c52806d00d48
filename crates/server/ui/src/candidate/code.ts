// PTX and SASS by source line. In PTX the compiler's `.loc` directives name the line that each instruction comes from;
// the SASS of a bundle has the line before each instruction.

export interface CodeLine {
  text: string;
  /** The line of the candidate's source; null before the first, and for code of other files. */
  source: number | null;
  isInstruction: boolean;
}

/** Compiled code of a bundle. */
export interface Listing {
  kind: "PTX" | "SASS";
  /** The bundle. */
  digest: string;
  lines: CodeLine[];
}

/** Splits the SASS of a bundle into lines. */
export function parseSass(text: string): CodeLine[] {
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => {
      const [, source, instruction] = /^(\d*)\t(.*)$/.exec(line) ?? [];
      if (instruction === undefined) return { text: line, source: null, isInstruction: false };
      return { text: `    ${instruction}`, source: source ? Number(source) : null, isInstruction: !instruction.startsWith("//") };
    });
}

/** The name of the candidate's file in what the compiler writes. */
const FILE = "candidate.cu";

/** Splits PTX into lines with the source line of each instruction. */
export function parsePtx(text: string): CodeLine[] {
  const raw = text.replace(/\n$/, "").split("\n");
  let file = "1";
  for (const line of raw) {
    const named = /^\s*\.file\s+(\d+)\s+"([^"]*)"/.exec(line);
    if (named?.[2]?.endsWith(FILE)) file = named[1] ?? file;
  }
  let source: number | null = null;
  return raw.map((line) => {
    const place = /^\s*\.loc\s+(\d+)\s+(\d+)/.exec(line);
    if (place) source = place[1] === file ? Number(place[2]) : null;
    else if (/^\s*(\.visible|\.entry|\.func|\})/.test(line)) source = null;
    const isInstruction = /^\s*(@!?%?\w+\s+)?[a-z][\w.]*(\s[^:]*)?;/.test(line);
    return { text: line, source: isInstruction ? source : null, isInstruction };
  });
}

/** Instructions by source line. They are those of the text, not executed ones. */
export function instructionsByLine(lines: readonly CodeLine[]): Map<number, number> {
  const byLine = new Map<number, number>();
  for (const { source } of lines) if (source !== null) byLine.set(source, (byLine.get(source) ?? 0) + 1);
  return byLine;
}

/** Heat from 0 to 4 of each line, by its share of the line with the most. */
export function heat(byLine: ReadonlyMap<number, number>): Map<number, number> {
  let most = 0;
  for (const count of byLine.values()) most = Math.max(most, count);
  return new Map([...byLine].map(([line, count]) => [line, Math.min(4, Math.floor((4.99 * count) / most))]));
}
