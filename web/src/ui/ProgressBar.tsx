// n of m, as a bar and in words.
import type { JSX } from "react";

import type { Progress } from "../api/types";
import "./ProgressBar.css";

interface Props {
  progress: Progress;
  label: string;
}

export function ProgressBar({ progress: { done, total, unit }, label }: Props): JSX.Element {
  return (
    <span className="progress">
      <progress value={done} max={total} aria-label={label} />
      <span className="number">
        {done} of {total} {unit}
      </span>
    </span>
  );
}
