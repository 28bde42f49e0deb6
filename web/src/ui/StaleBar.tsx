// Says that the service is silent, and of when the picture is that is still shown.
import type { JSX } from "react";

import { Refusal } from "../api/problem";
import { fleet } from "../live/fleet";
import { useStore } from "../live/store";
import { Age } from "./Age";
import { Note } from "./Note";
import { clock } from "./words";

export function StaleBar(): JSX.Element | null {
  const { trouble, readAt } = useStore(fleet, (value) => value);
  if (trouble === null || readAt === null) return null;
  return (
    <div className="stale-bar">
      <Note tone="warning" title="No word from Vigil: this may be old" isAlert>
        <p>
          What you see is of {clock(readAt)}, <Age at={readAt} />. It goes on by itself as soon as the service answers.
        </p>
        {trouble instanceof Refusal && <p className="small">{trouble.message}</p>}
      </Note>
    </div>
  );
}
