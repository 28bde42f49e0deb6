// Nothing is there yet, and what to do about it.
import type { JSX, ReactNode } from "react";

import "./Empty.css";

export function Empty({ title, children }: { title: string; children?: ReactNode }): JSX.Element {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}
