// Texts cut to a width in pixels, so that labels of neighbouring columns never meet.

/** The longest beginning of `text`, with an ellipsis where it was cut, that is at most `width` wide. */
export function fitted(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) return text;
  let [fits, tooLong] = [0, text.length];
  while (tooLong - fits > 1) {
    const middle = Math.floor((fits + tooLong) / 2);
    if (measure(cut(text, middle)) <= width) fits = middle;
    else tooLong = middle;
  }
  return cut(text, fits);
}

function cut(text: string, length: number): string {
  return `${text.slice(0, length).trimEnd()}…`;
}

