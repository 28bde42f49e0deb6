// A value as one line of text: numbers, true, false, lists and objects as JSON; everything else is text.

export function toText(value: unknown): string {
  return typeof value === "string" && fromText(value) === value ? value : JSON.stringify(value);
}

export function fromText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
