// Which place of the log somebody asked to see.
import type { Evidence } from "../api/types";
import { Store } from "../live/store";

export const wantedLine = new Store<Evidence | null>(null);

export function showLine(evidence: Evidence): void {
  wantedLine.set({ ...evidence });
}
