// The stays of a start in its phases, with their lengths.
import type { Launch, Phase, Progress } from "../api/types";
import { secondsBetween } from "../ui/words";

export interface Stay {
  phase: Phase;
  progress: Progress | null;
  /** null where the log tells no time. */
  seconds: number | null;
  isNow: boolean;
  /** The start went on to another phase: all of this one was done, whatever its last line counted. */
  isDone: boolean;
}

/** Serving is no part of a start; the last stay lasts until now while the launch is starting. */
export function staysOf(launch: Launch, now: number): Stay[] {
  const isStarting = launch.ready_at === null && launch.ended_at === null;
  const last = launch.timeline.length - 1;
  return launch.timeline
    .map((stay, index) => {
      const isNow = isStarting && index === last;
      const end = stay.ended_at ?? (isNow ? now : (launch.ready_at ?? launch.ended_at));
      const length = stay.started_at && end ? Math.max(0, secondsBetween(stay.started_at, end)) : null;
      return { phase: stay.phase, progress: stay.progress, seconds: length, isNow, isDone: index < last };
    })
    .filter((stay) => stay.phase !== "serving");
}
