// A message that stands out: a warning, a failure, or that nothing is there yet.
import type { JSX, ReactNode } from "react";

import "./Note.css";

interface Props {
  tone: "calm" | "warning" | "failure" | "success";
  title?: string;
  children?: ReactNode;
  /** Told at once to who listens instead of reading. */
  isAlert?: boolean;
}

export function Note({ tone, title, children, isAlert = false }: Props): JSX.Element {
  return (
    <div className={`note note-${tone}`} role={isAlert ? "alert" : undefined}>
      {title && <p className="note-title">{title}</p>}
      {children}
    </div>
  );
}
