// What can be done with a run: end it, make it the baseline, look at its history.
import { useState, type JSX } from "react";

import { SimpleDialog } from "../acting/SimpleDialog";
import { baselineWish, cancelWish } from "../acting/wishes";
import type { RunDetail } from "../api/types";
import { to } from "../route";
import { useMayAct } from "../session/caller";

interface Props {
  run: RunDetail;
  onChanged: () => void;
}

export function RunActions({ run, onChanged }: Props): JSX.Element {
  const [action, setAction] = useState<"cancel" | "baseline" | null>(null);
  const mayAct = useMayAct();
  const close = (): void => setAction(null);
  return (
    <>
      {run.profile && <a href={to("benchmarks", "history", run.profile)}>History</a>}
      {run.profile && run.state === "succeeded" && (
        <button type="button" disabled={!mayAct} onClick={() => setAction("baseline")}>
          Make it the baseline …
        </button>
      )}
      {run.state === "running" && run.operation_id && (
        <button type="button" className="danger" disabled={!mayAct} onClick={() => setAction("cancel")}>
          End it …
        </button>
      )}
      {action === "baseline" && run.profile && (
        <SimpleDialog
          title={`The baseline of ${run.profile}`}
          wish={baselineWish(run.profile, run.id)}
          confirmation={null}
          verb="Make it the baseline"
          said="It is the baseline now"
          onClose={close}
          onDone={onChanged}
        >
          <p>
            Later runs of {run.profile} and of the same benchmark are compared with this one when they end.
            {run.repeats < 3 && " It has fewer than three repeats: most comparisons will be inconclusive."}
          </p>
        </SimpleDialog>
      )}
      {action === "cancel" && run.operation_id && (
        <SimpleDialog
          title="End the run"
          wish={cancelWish(run.operation_id)}
          confirmation={null}
          verb="End the run"
          said="The run is being ended"
          onClose={close}
          onDone={onChanged}
        >
          <p>The client is ended; what was measured so far is kept. The server serves on.</p>
        </SimpleDialog>
      )}
    </>
  );
}
