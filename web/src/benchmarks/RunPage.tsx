// One run: watched while it goes on; then its numbers, and what the comparison with the baseline said.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import type { RunDetail } from "../api/types";
import { useResource } from "../live/resource";
import { to } from "../route";
import { Age } from "../ui/Age";
import { Loaded } from "../ui/Loaded";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { ProgressBar } from "../ui/ProgressBar";
import { clock, plain } from "../ui/words";
import { BaselineNote } from "./BaselineNote";
import { PointTable } from "./PointTable";
import { progressOf } from "./progress";
import { RunActions } from "./RunActions";
import { RunFacts } from "./RunFacts";
import { RunStateMark } from "./RunStateMark";

const WATCH_EVERY_MS = 1_000;

export default function RunPage({ id }: { id: string }): JSX.Element {
  const path = { run: id };
  const run = useResource(id, () => answerOf(api.GET("/api/v1/benchmark-runs/{run}", { params: { path } })), {
    againAfterMs: (known) => (known === undefined || known.state === "running" ? WATCH_EVERY_MS : null),
  });
  const { value } = run;
  return (
    <Page
      title={value ? `Run of ${value.benchmark ?? value.model ?? "an import"}` : "Run"}
      beside={value && <RunStateMark run={value} />}
      actions={value && <RunActions run={value} onChanged={run.reload} />}
    >
      <Loaded of={run} what="the run">
        {(known) => <Known run={known} />}
      </Loaded>
    </Page>
  );
}

function Known({ run }: { run: RunDetail }): JSX.Element {
  return (
    <>
      <p className="small muted">
        {run.server && (
          <>
            on <a href={to("servers", run.server)}>{run.server}</a>,{" "}
          </>
        )}
        {run.profile && (
          <>
            profile <a href={to("benchmarks", "history", run.profile)}>{run.profile}</a>
            {run.profile_version !== null && ` version ${run.profile_version}`},{" "}
          </>
        )}
        {run.source === "import" ? "imported" : "begun"} by {run.actor} at {clock(run.created_at)}
      </p>
      {run.state === "running" && <Running run={run} />}
      {run.problem && (
        <Note tone={run.state === "failed" ? "failure" : "warning"} title={run.problem.detail}>
          <p>{run.problem.remedy}</p>
          <p className="small muted">
            <code>{run.problem.code}</code>
          </p>
        </Note>
      )}
      {run.baseline && <BaselineNote run={run} baseline={run.baseline} />}
      {run.points.length > 0 && <PointTable points={run.points} />}
      <RunFacts run={run} />
    </>
  );
}

function Running({ run }: { run: RunDetail }): JSX.Element {
  const progress = progressOf(run.progress);
  return (
    <Note tone="calm" title={progress ? plain(progress.said) : "It begins"}>
      {progress && (
        <p className="row">
          <ProgressBar progress={progress.steps} label="Steps of the run" />
          {progress.requests && <ProgressBar progress={progress.requests} label="Requests of this step" />}
        </p>
      )}
      {run.started_at && (
        <p className="small muted">
          begun <Age at={run.started_at} />, {run.results.length} repeats measured so far
        </p>
      )}
    </Note>
  );
}
