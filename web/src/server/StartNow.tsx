// A start in one look: the phase, n of m, how long it may still take, and what is thought of it.
import type { JSX } from "react";

import type { Eta, Server } from "../api/types";
import { Age } from "../ui/Age";
import { Note } from "../ui/Note";
import { ProgressBar } from "../ui/ProgressBar";
import { many, phaseName, plain, wholeSeconds } from "../ui/words";
import { VerdictLine } from "./VerdictLine";

export function StartNow({ server }: { server: Server }): JSX.Element {
  const { launch, verdict, eta } = server;
  const phase = launch?.phase ? phaseName(launch.phase) : "Beginning";
  const isHung = verdict?.verdict === "suspected_hung";
  const isSlow = verdict?.verdict === "slow";
  return (
    <Note tone={isHung ? "failure" : isSlow ? "warning" : "calm"} title={isHung ? `Suspected hung: ${phase}` : phase}>
      <p className="row">
        {launch?.phase_started_at && (
          <span>
            in this phase for <Age at={launch.phase_started_at} suffix="" />
          </span>
        )}
        {launch?.progress && <ProgressBar progress={launch.progress} label={phase} />}
      </p>
      <p>{eta ? <TimeLeft eta={eta} /> : <span className="muted">How long it will take is not known: no earlier start tells.</span>}</p>
      {verdict ? <VerdictLine verdict={verdict} /> : <p className="muted">{server.message}</p>}
    </Note>
  );
}

function TimeLeft({ eta }: { eta: Eta }): JSX.Element {
  const from = `from ${many(eta.learned_from_starts, "start")} (${plain(eta.learned_from)})`;
  if (eta.is_overdue) {
    return (
      <span>
        This phase takes longer than in any earlier start <span className="muted">{from}</span>
      </span>
    );
  }
  return (
    <span>
      Ready in about <strong className="number">{wholeSeconds(eta.remaining_p50_s)}</strong>
      {wholeSeconds(eta.remaining_p90_s) !== wholeSeconds(eta.remaining_p50_s) && (
        <>, nine times in ten within {wholeSeconds(eta.remaining_p90_s)}</>
      )}{" "}
      <span className="muted">{from}</span>
    </span>
  );
}
