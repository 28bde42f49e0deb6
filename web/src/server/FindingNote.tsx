// What is wrong with a server that serves.
import type { JSX } from "react";

import type { Finding } from "../api/types";
import { Age } from "../ui/Age";
import { Note } from "../ui/Note";
import { EvidenceList } from "./EvidenceList";

export function FindingNote({ finding }: { finding: Finding }): JSX.Element {
  return (
    <Note tone="warning" title={finding.summary}>
      <p>
        <strong>What to do:</strong> {finding.remedy}
      </p>
      <EvidenceList evidence={finding.evidence} />
      <p className="small muted">
        <code>{finding.code}</code> · seen {finding.count} times, first <Age at={finding.began_at} />
      </p>
    </Note>
  );
}
