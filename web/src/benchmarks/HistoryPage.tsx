// A metric of a profile over its runs: with versions, and the points where it changed for good.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import type { BenchmarkHistory } from "../api/types";
import { useResource } from "../live/resource";
import { go, to } from "../route";
import { Empty } from "../ui/Empty";
import { Loaded } from "../ui/Loaded";
import { Page } from "../ui/Page";
import { clock, plain } from "../ui/words";
import { figure, metricTitle } from "./metrics";
import { Plot } from "./Plot";

interface Props {
  profile: string;
  metric: string | null;
  seriesKey: string | null;
}

const METRICS = [
  "output_throughput_tps",
  "ttft_p50_ms",
  "ttft_p99_ms",
  "tpot_p50_ms",
  "tpot_p99_ms",
  "e2e_p99_ms",
  "goodput_rps",
  "accept_length",
];

export default function HistoryPage({ profile, metric, seriesKey }: Props): JSX.Element {
  const shown = metric ?? "output_throughput_tps";
  const query = { profile, metric: shown, ...(seriesKey && { key: seriesKey }) };
  const history = useResource(JSON.stringify(query), () =>
    answerOf(api.GET("/api/v1/benchmark-history", { params: { query } })),
  );
  const choose = (name: string): void => go("benchmarks", "history", profile, name, ...(seriesKey ? [seriesKey] : []));
  const isNothing = history.trouble !== null && "status" in history.trouble && history.trouble.status === 404;
  return (
    <Page title={`Benchmarks of ${profile}`}>
      <label className="row">
        Metric
        <select value={shown} onChange={(event) => choose(event.target.value)}>
          {METRICS.map((name) => (
            <option key={name} value={name}>
              {metricTitle(name)}
            </option>
          ))}
        </select>
      </label>
      {isNothing ? (
        <Empty title="No run tells this metric yet">
          <a href={to("benchmarks")}>To the runs</a>
        </Empty>
      ) : (
        <Loaded of={history} what="the history">
          {(told) => <Told history={told} query={new URLSearchParams(query).toString()} />}
        </Loaded>
      )}
    </Page>
  );
}

function Told({ history, query }: { history: BenchmarkHistory; query: string }): JSX.Element {
  const { series, changes, points, metric, profile } = history;
  return (
    <>
      <p className="small muted">
        {series.benchmark ?? "not named"} at {series.load}, {series.model}: {points.length} runs
      </p>
      <Plot path={`/api/v1/benchmark-history/plot.svg?${query}`} title={metricTitle(metric)} />
      <section className="card stack tight" aria-labelledby="changes">
        <h2 id="changes">Changes for good</h2>
        {changes.length === 0 ? (
          <p className="muted">{history.reason ?? "None was found."}</p>
        ) : (
          <ul className="stack tight">
            {changes.map((change) => (
              <li key={change.run}>
                <a href={to("benchmarks", "runs", change.run)}>{clock(change.at)}</a>: {plain(change.kind)},{" "}
                {figure(change.before, metric)} → {figure(change.after, metric)}
                {change.version_before !== change.version_after && ` (${change.version_before} → ${change.version_after})`}
              </li>
            ))}
          </ul>
        )}
      </section>
      {history.other_series.length > 0 && (
        <section className="card stack tight" aria-labelledby="others">
          <h2 id="others">Other series of {profile}</h2>
          <ul>
            {history.other_series.map((other) => (
              <li key={other.key}>
                <a href={to("benchmarks", "history", profile, metric, other.key)}>
                  {other.benchmark ?? "not named"} at {other.load}
                </a>
                , {other.points} runs
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}
