// A state as a word with a shape of its own, so that nobody has to tell colours apart.
import type { JSX } from "react";

import type { State } from "../api/types";
import { stateName } from "./words";
import "./StateBadge.css";

const SHAPES: Record<State, JSX.Element> = {
  ready: <circle cx="8" cy="8" r="6" fill="currentColor" />,
  starting: (
    <g fill="none" stroke="currentColor" strokeWidth="2">
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 8V2.5A5.5 5.5 0 0 1 13.5 8Z" fill="currentColor" stroke="none" />
    </g>
  ),
  unready: <path d="M8 1.5 15 14H1Z" fill="currentColor" />,
  stopping: <path d="M2 8h12M8 2v12" stroke="currentColor" strokeWidth="2" strokeDasharray="2 2" />,
  stopped: <rect x="3" y="3" width="10" height="10" fill="none" stroke="currentColor" strokeWidth="2" />,
  failed: <path d="m3 3 10 10M13 3 3 13" stroke="currentColor" strokeWidth="3" />,
};

interface Props {
  state: State;
  isBig?: boolean;
}

export function StateBadge({ state, isBig = false }: Props): JSX.Element {
  return (
    <span className={`state state-${state}${isBig ? " big" : ""}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        {SHAPES[state]}
      </svg>
      {stateName(state)}
    </span>
  );
}
