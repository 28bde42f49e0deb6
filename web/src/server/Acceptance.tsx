// What speculation does for a server that serves.
import type { JSX } from "react";

import type { Server } from "../api/types";
import { plain } from "../ui/words";

export function Acceptance({ acceptance }: { acceptance: NonNullable<Server["acceptance"]> }): JSX.Element {
  return (
    <p>
      Speculation{acceptance.algorithm && ` (${acceptance.algorithm})`}: <strong>{plain(acceptance.judgement)}</strong>
      {acceptance.newest && <>, accept length {acceptance.newest.accept_length.toFixed(2)}</>}
      {acceptance.floor !== null && acceptance.floor_source && (
        <span className="muted">
          {" "}
          (should reach {acceptance.floor.toFixed(2)}, {acceptance.floor_source === "profile" ? "by its profile" : "a hint"})
        </span>
      )}
      <span className="muted small"> {acceptance.message}</span>
    </p>
  );
}
