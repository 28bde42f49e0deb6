// How many servers are in which state; choosing one shows only those.
import type { JSX } from "react";

import type { Server, State } from "../api/types";
import { stateName } from "../ui/words";

const ORDER: State[] = ["failed", "unready", "starting", "stopping", "ready", "stopped"];

interface Props {
  servers: readonly Server[];
  chosen: State | null;
  onChoose: (state: State | null) => void;
}

export function StateFilter({ servers, chosen, onChoose }: Props): JSX.Element {
  const count = (state: State): number => servers.filter((server) => server.state === state).length;
  return (
    <div className="state-filter" role="group" aria-label="Show servers by state">
      <button type="button" aria-pressed={chosen === null} onClick={() => onChoose(null)}>
        All <span className="number">{servers.length}</span>
      </button>
      {ORDER.filter((state) => count(state) > 0 || state === chosen).map((state) => (
        <button
          key={state}
          type="button"
          className={`ink-${state}`}
          aria-pressed={chosen === state}
          onClick={() => onChoose(chosen === state ? null : state)}
        >
          {stateName(state)} <span className="number">{count(state)}</span>
        </button>
      ))}
    </div>
  );
}
