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

const WATCH_EVERY_MS = 1_000;

/** How long after a reading of a launch the next comes: never, once it is ready or has ended. */
export function againWhileStarting(launch: Launch | undefined): number | null {
  return launch === undefined || isStarting(launch) ? WATCH_EVERY_MS : null;
}

function isStarting(launch: Launch): boolean {
  return launch.ready_at === null && launch.ended_at === null;
}

/** Serving is no part of a start; the last stay lasts until now while the launch is starting. */
export function staysOf(launch: Launch, now: number): Stay[] {
  const last = launch.timeline.length - 1;
  return launch.timeline
    .map((stay, index) => {
      const isNow = isStarting(launch) && index === last;
      const end = stay.ended_at ?? (isNow ? now : (launch.ready_at ?? launch.ended_at));
      const length = stay.started_at && end ? Math.max(0, secondsBetween(stay.started_at, end)) : null;
      return { phase: stay.phase, progress: stay.progress, seconds: length, isNow, isDone: index < last };
    })
    .filter((stay) => stay.phase !== "serving");
}
