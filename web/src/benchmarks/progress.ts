// How far a run has come, as the service keeps it with the run.
import type { Progress, Run } from "../api/types";
import { plain } from "../ui/words";

export interface RunProgress {
  steps: Progress;
  /** The requests of the step that is measured now. */
  requests: Progress | null;
  said: string;
}

/** null before the first step has begun. */
export function progressOf(document: Run["progress"]): RunProgress | null {
  const { step, steps, load, repeat_index: repeat, stage, done, total } = document ?? {};
  if (typeof step !== "number" || typeof steps !== "number") return null;
  const isCounted = typeof done === "number" && typeof total === "number" && total > 0;
  return {
    steps: { done: step, total: steps, unit: "steps" },
    requests: isCounted ? { done, total, unit: "requests" } : null,
    said: `${String(load)}, repeat ${Number(repeat) + 1}: ${plain(String(stage))}`,
  };
}
