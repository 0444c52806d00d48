// Tags of a run: words by which people find it again.

/** The tags that a person typed, apart by blanks or commas. */
export function parseTags(text: string): string[] {
  return text.split(/[\s,]+/).filter((tag) => tag !== "");
}

/** The address of the list of runs with this tag. */
export function tagPath(tag: string): string {
  return `/?${new URLSearchParams({ tag })}`;
}
