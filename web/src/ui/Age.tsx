// How long ago something was; the instant itself is in the title.
import type { JSX } from "react";

import { useNow } from "../live/clock";
import { clock, coarse, secondsBetween, wholeSeconds } from "./words";

interface Props {
  at: string | number;
  /** Said after the age; "ago" by default. */
  suffix?: string;
  /** In lists: one unit only, so that hundreds of ages seldom change. */
  isCoarse?: boolean;
}

export function Age({ at, suffix = " ago", isCoarse = false }: Props): JSX.Element {
  const now = useNow();
  const instant = new Date(at).toISOString();
  return (
    <time className="number" dateTime={instant} title={clock(at)}>
      {(isCoarse ? coarse : wholeSeconds)(secondsBetween(instant, now))}
      {suffix}
    </time>
  );
}
