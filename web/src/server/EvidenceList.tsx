// Lines of a log that prove something; each leads to its place in the log beside.
import type { JSX } from "react";

import type { Evidence } from "../api/types";
import { showLine } from "./logPlace";
import "./EvidenceList.css";

export function EvidenceList({ evidence }: { evidence: readonly Evidence[] }): JSX.Element | null {
  if (evidence.length === 0) return null;
  return (
    <ol className="evidence" aria-label="Evidence">
      {evidence.map((item, index) => (
        <li key={index}>
          {item.line !== null && (
            <button type="button" className="plain small" onClick={() => showLine(item)}>
              line {item.line}
            </button>
          )}
          <code>{item.text}</code>
        </li>
      ))}
    </ol>
  );
}
