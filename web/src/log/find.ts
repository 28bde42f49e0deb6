// Finds places in the lines of a log.
import type { Evidence } from "../api/types";
import type { Lines } from "./lines";

/** The indexes of the lines that hold a text, whatever its case. */
export function linesWith(lines: readonly string[], text: string): number[] {
  const wanted = text.toLowerCase();
  const found: number[] = [];
  if (wanted === "") return found;
  lines.forEach((line, index) => {
    if (line.toLowerCase().includes(wanted)) found.push(index);
  });
  return found;
}

/** The index of the line that an evidence names: by its number where lines are numbered, else by its text. */
export function indexOf(lines: Lines, evidence: Evidence, isNumbered: boolean): number | null {
  if (isNumbered && evidence.line !== null) {
    const index = evidence.line - lines.first;
    if (index >= 0 && index < lines.kept.length) return index;
  }
  const index = lines.kept.findLastIndex((line) => line.includes(evidence.text));
  return index < 0 ? null : index;
}
