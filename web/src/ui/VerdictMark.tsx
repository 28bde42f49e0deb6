// What is thought of a launch, in one or two words.
import type { JSX } from "react";

import { plain } from "./words";
import "./VerdictMark.css";

const TONES: Record<string, string> = {
  progressing: "good",
  healthy: "good",
  busy: "calm",
  draining: "calm",
  slow: "warning",
  suspected_hung: "bad",
  engine_silent: "bad",
};

export function VerdictMark({ verdict }: { verdict: string }): JSX.Element {
  return <span className={`verdict verdict-${TONES[verdict] ?? "calm"}`}>{plain(verdict)}</span>;
}
