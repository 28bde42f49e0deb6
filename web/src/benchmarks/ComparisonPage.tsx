// Two runs against each other: the verdict, each metric with its interval, what explains it, and the pictures.
import { useState, type JSX } from "react";

import { answerOf, api } from "../api/client";
import type { Comparison } from "../api/types";
import { useResource } from "../live/resource";
import { to } from "../route";
import { Loaded } from "../ui/Loaded";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { plain } from "../ui/words";
import { ComparedPoint } from "./ComparedPoint";
import { Plot } from "./Plot";

interface Props {
  baseline: string;
  candidate: string;
}

const LATENCY_METRICS = ["ttft_p99_ms", "ttft_p50_ms", "tpot_p99_ms", "tpot_p50_ms", "e2e_p99_ms"];

export default function ComparisonPage({ baseline, candidate }: Props): JSX.Element {
  const [metric, setMetric] = useState("ttft_p99_ms");
  const query = { baseline: [baseline], candidate: [candidate] };
  const comparison = useResource(`${baseline} ${candidate}`, () =>
    answerOf(api.GET("/api/v1/benchmark-comparisons", { params: { query } })),
  );
  const sides = `baseline=${encodeURIComponent(baseline)}&candidate=${encodeURIComponent(candidate)}`;
  return (
    <Page title="Comparison">
      <Loaded of={comparison} what="the comparison">
        {(made) => (
          <>
            <Verdict made={made} />
            {made.points.map((point) => (
              <ComparedPoint key={point.load} point={point} />
            ))}
            <div className="plots">
              <Plot path={`/api/v1/benchmark-comparisons/plot.svg?${sides}`} title="Throughput against what a user gets" />
              <div className="stack tight">
                <Plot
                  path={`/api/v1/benchmark-comparisons/plot.svg?${sides}&picture=latency&metric=${metric}`}
                  title="Latency against load"
                />
                <label className="small row">
                  Metric
                  <select value={metric} onChange={(event) => setMetric(event.target.value)}>
                    {LATENCY_METRICS.map((name) => (
                      <option key={name}>{name}</option>
                    ))}
                  </select>
                </label>
              </div>
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Verdict({ made }: { made: Comparison }): JSX.Element {
  const tone = made.verdict === "regressed" ? "failure" : made.verdict === "improved" ? "success" : "calm";
  return (
    <Note tone={tone} title={`The candidate is: ${plain(made.verdict)}`}>
      <p>
        Baseline <Runs ids={made.baseline_runs} />, candidate <Runs ids={made.candidate_runs} />.
      </p>
      {made.only_baseline.length > 0 && <p>Only the baseline was measured at {made.only_baseline.join(", ")}.</p>}
      {made.only_candidate.length > 0 && <p>Only the candidate was measured at {made.only_candidate.join(", ")}.</p>}
    </Note>
  );
}

function Runs({ ids }: { ids: string[] }): JSX.Element {
  return (
    <>
      {ids.map((id) => (
        <a key={id} href={to("benchmarks", "runs", id)}>
          {id}
        </a>
      ))}
    </>
  );
}
