// The means of a run at each point of load.
import type { JSX } from "react";

import type { RunPoint } from "../api/types";
import { figure, metricTitle } from "./metrics";

const FIRST = [
  "output_throughput_tps",
  "ttft_p50_ms",
  "ttft_p99_ms",
  "tpot_p50_ms",
  "tpot_p99_ms",
  "e2e_p99_ms",
  "goodput_rps",
  "accept_length",
];

export function PointTable({ points }: { points: readonly RunPoint[] }): JSX.Element {
  const has = (name: string): boolean => points.some((point) => name in point.metrics);
  const rest = [...new Set(points.flatMap((point) => Object.keys(point.metrics)))].filter((name) => !FIRST.includes(name)).sort();
  return (
    <section className="card stack" aria-labelledby="points">
      <h2 id="points">By load</h2>
      <Table points={points} names={FIRST.filter(has)} label="By load" />
      {rest.length > 0 && (
        <details>
          <summary className="small">{rest.length} further metrics</summary>
          <Table points={points} names={rest} label="Further metrics" />
        </details>
      )}
    </section>
  );
}

function Table({ points, names, label }: { points: readonly RunPoint[]; names: string[]; label: string }): JSX.Element {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">Metric</th>
            {points.map((point) => (
              <th key={point.load} scope="col">
                {point.load} ({point.repeats}×{point.status !== "ok" && `, ${point.status}`})
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <th scope="row">{metricTitle(name)}</th>
              {points.map((point) => (
                <td key={point.load} className="number">
                  {point.metrics[name] === undefined ? "–" : figure(point.metrics[name], name)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
