// One point of load of both sides: every metric with its verdict and interval.
import type { JSX } from "react";

import type { Comparison, MetricCompared } from "../api/types";
import { BenchmarkVerdictMark } from "./BenchmarkVerdictMark";
import { Interval } from "./Interval";
import { figure, metricTitle } from "./metrics";

type Point = Comparison["points"][number];

export function ComparedPoint({ point }: { point: Point }): JSX.Element {
  return (
    <section className="card stack tight" aria-label={`At ${point.load}`}>
      <h2 className="row">
        {point.load} <BenchmarkVerdictMark verdict={point.verdict} />
      </h2>
      {[...point.reasons, ...point.cautions].map((text) => (
        <p key={text} className="small">
          {text}
        </p>
      ))}
      {point.more_repeats !== null && <p className="small">About {point.more_repeats} more repeats a side would tell.</p>}
      <div className="scroll-x" tabIndex={0} role="region" aria-label={`Metrics at ${point.load}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">Metric</th>
              <th scope="col">Baseline</th>
              <th scope="col">Candidate</th>
              <th scope="col">Change, 95 % interval</th>
              <th scope="col">Verdict</th>
            </tr>
          </thead>
          <tbody>
            {point.metrics.map((metric) => (
              <Row key={metric.metric} metric={metric} isPrimary={metric.metric === point.primary} />
            ))}
            {point.context.map(({ metric, baseline, candidate }) => (
              <tr key={metric}>
                <th scope="row">{metricTitle(metric)}</th>
                <td className="number">{baseline === null ? "–" : figure(baseline, metric)}</td>
                <td className="number">{candidate === null ? "–" : figure(candidate, metric)}</td>
                <td className="muted">explains, gets no verdict</td>
                <td />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Differences title="Why the two may not be compared" of={point.key_differences} />
      <Differences title="What was changed between them" of={point.setup_differences} />
    </section>
  );
}

function Row({ metric, isPrimary }: { metric: MetricCompared; isPrimary: boolean }): JSX.Element {
  return (
    <tr>
      <th scope="row">
        {metricTitle(metric.metric)}
        {isPrimary && " (decides)"}
      </th>
      <td className="number">{metric.baseline_mean === null ? "–" : figure(metric.baseline_mean, metric.metric)}</td>
      <td className="number">{metric.candidate_mean === null ? "–" : figure(metric.candidate_mean, metric.metric)}</td>
      <td>
        <Interval metric={metric} />
      </td>
      <td>
        <BenchmarkVerdictMark verdict={metric.verdict} />
        {metric.reason && <span className="small muted"> {metric.reason}</span>}
      </td>
    </tr>
  );
}

function Differences({ title, of }: { title: string; of: Point["key_differences"] }): JSX.Element | null {
  if (of.length === 0) return null;
  return (
    <details>
      <summary className="small">{title}</summary>
      <ul className="small">
        {of.map(({ field, baseline, candidate }) => (
          <li key={field}>
            <code>{field}</code>: {String(baseline)} → {String(candidate)}
          </li>
        ))}
      </ul>
    </details>
  );
}
