// In one line: what a server does now, or what is wrong with it.
import type { JSX } from "react";

import type { Server } from "../api/types";
import { ProgressBar } from "../ui/ProgressBar";
import { VerdictMark } from "../ui/VerdictMark";
import { phaseName, plain, wholeSeconds } from "../ui/words";

export function Doing({ server }: { server: Server }): JSX.Element {
  return (
    <>
      {server.contact.state === "lost" && <span className="flag flag-lost">not heard: last known</span>}
      {server.state === "starting" ? <Start server={server} /> : <Rest server={server} />}
      {server.findings.map((finding) => (
        <span key={finding.id} className="flag flag-finding" title={finding.summary}>
          {plain(finding.code)}
        </span>
      ))}
      {server.operation?.step === "pausing" && <span className="flag">restart comes</span>}
    </>
  );
}

function Start({ server: { launch, verdict, eta } }: { server: Server }): JSX.Element {
  const phase = launch?.phase ? phaseName(launch.phase) : "Beginning";
  return (
    <>
      <span>{phase}</span>
      {launch?.progress && <ProgressBar progress={launch.progress} label={phase} />}
      {verdict && <VerdictMark verdict={verdict.verdict} />}
      {eta && (
        <span className="muted small number">
          {eta.is_overdue ? "longer than ever before" : `about ${wholeSeconds(eta.remaining_p50_s)} left`}
        </span>
      )}
    </>
  );
}

function Rest({ server }: { server: Server }): JSX.Element {
  const cause = server.state === "failed" ? server.launch?.diagnosis?.summary : undefined;
  if (server.state === "ready") return server.verdict ? <VerdictMark verdict={server.verdict.verdict} /> : <></>;
  return <span className="clipped small muted">{cause ?? server.message}</span>;
}
