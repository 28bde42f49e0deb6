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
  return (
    <Note tone="failure" title={`Failed: ${diagnosis?.summary ?? server.message ?? "nobody knows why"}`}>
      {diagnosis && server.message && server.message !== diagnosis.summary && <p>{server.message}</p>}
      {diagnosis ? <Cause diagnosis={diagnosis} /> : <p>No known cause was found in its log; read the end of it.</p>}
      {server.launch?.exit_code != null && <p className="small">Exit code {server.launch.exit_code}</p>}
      {launch?.preflight && <WarnedBefore checks={launch.preflight.checks} overridden={launch.preflight.overridden} />}
      {server.operation && (
        <p className="small">
          {plain(server.operation.kind)} under way: {plain(server.operation.step)}
        </p>
      )}
    </Note>
  );
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
