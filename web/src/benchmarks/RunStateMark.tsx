// How far a run has come, or how it ended.
import type { JSX } from "react";

import type { Run } from "../api/types";
import { ProgressBar } from "../ui/ProgressBar";
import { progressOf } from "./progress";

const TONES: Record<Run["state"], string> = {
  running: "calm",
  succeeded: "good",
  degraded: "warning",
  failed: "bad",
  canceled: "calm",
};

export function RunStateMark({ run }: { run: Run }): JSX.Element {
  const progress = run.state === "running" ? progressOf(run.progress) : null;
  return (
    <span className="row">
      <span className={`verdict verdict-${TONES[run.state]}`}>{run.state}</span>
      {progress && <ProgressBar progress={progress.steps} label="Steps of the run" />}
    </span>
  );
}
