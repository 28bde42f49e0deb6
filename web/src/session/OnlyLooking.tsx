// Said to a viewer in the place of what he may not do.
import type { JSX } from "react";

export function OnlyLooking(): JSX.Element {
  return <span className="small muted">Your token may only look</span>;
}
