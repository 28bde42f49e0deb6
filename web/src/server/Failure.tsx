// Why it failed: the cause, the lines that prove it, the remedy, and what the checks before had said.
import type { JSX } from "react";

import type { Diagnosis, Launch, Server } from "../api/types";
import { Note } from "../ui/Note";
import { plain } from "../ui/words";
import { EvidenceList } from "./EvidenceList";
import { WarnedBefore } from "./WarnedBefore";

interface Props {
  server: Server;
  launch: Launch | undefined;
}

export function Failure({ server, launch }: Props): JSX.Element {
  const diagnosis = server.launch?.diagnosis ?? null;
  const more = diagnosis ? beyond(server.message ?? "", diagnosis.summary) : null;
  return (
    <Note tone="failure" title={`Failed: ${diagnosis?.summary ?? server.message ?? "nobody knows why"}`}>
      {more && <p>{more}</p>}
      {diagnosis ? <Cause diagnosis={diagnosis} /> : <p>No known cause was found in its log; read the end of it.</p>}
      {launch?.preflight && <WarnedBefore checks={launch.preflight.checks} overridden={launch.preflight.overridden} />}
      {server.operation && (
        <p className="small">
          {plain(server.operation.kind)} under way: {plain(server.operation.step)}
        </p>
      )}
    </Note>
  );
}

/** A message often begins with the summary of the cause: only what it adds is said. */
function beyond(message: string, summary: string): string {
  return message.startsWith(summary) ? message.slice(summary.length).trim().replace(/^\((.*)\)$/, "$1") : message;
}

export function Cause({ diagnosis }: { diagnosis: Diagnosis }): JSX.Element {
  return (
    <>
      <p>
        <strong>What to do:</strong> {diagnosis.remedy}
      </p>
      <EvidenceList evidence={diagnosis.evidence} />
      <p className="small muted">
        <code>{diagnosis.code}</code> · confidence {diagnosis.confidence}
      </p>
    </>
  );
}
