// How long ago something was; the instant itself is in the title.
import type { JSX } from "react";

import { useNow } from "../live/clock";
import { clock, secondsBetween, wholeSeconds } from "./words";

interface Props {
  at: string | number;
  /** Said after the age; "ago" by default. */
  suffix?: string;
}

export function Age({ at, suffix = " ago" }: Props): JSX.Element {
  const now = useNow();
  const instant = new Date(at).toISOString();
  return (
    <time className="number" dateTime={instant} title={clock(at)}>
      {wholeSeconds(secondsBetween(instant, now))}
      {suffix}
    </time>
  );
}
