// What was run and on what, repeat by repeat.
import type { JSX } from "react";

import type { RunDetail } from "../api/types";
import { figure } from "./metrics";

export function RunFacts({ run }: { run: RunDetail }): JSX.Element {
  return (
    <div className="stack tight">
      {run.results.length > 0 && (
        <details className="card">
          <summary>{run.results.length} repeats</summary>
          <div className="scroll-x" tabIndex={0} role="region" aria-label="Repeats">
            <table>
              <thead>
                <tr>
                  <th scope="col">Load</th>
                  <th scope="col">Repeat</th>
                  <th scope="col">Status</th>
                  <th scope="col">Output tokens/s</th>
                  <th scope="col">Notes</th>
                </tr>
              </thead>
              <tbody>
                {run.results.map((repeat) => (
                  <tr key={`${repeat.point_index} ${repeat.repeat_index}`}>
                    <td>{repeat.load}</td>
                    <td className="number">{repeat.repeat_index + 1}</td>
                    <td>{repeat.status}</td>
                    <td className="number">{figureOf(repeat.metrics)}</td>
                    <td>{repeat.notes.join("; ")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
      {run.workload && <Document title="What was run" value={run.workload} />}
      {run.provenance && <Document title="On what" value={run.provenance} />}
    </div>
  );
}

function figureOf(metrics: Record<string, number>): string {
  const value = metrics["output_throughput_tps"];
  return value === undefined ? "–" : figure(value, "output_throughput_tps");
}

function Document({ title, value }: { title: string; value: unknown }): JSX.Element {
  return (
    <details className="card">
      <summary>{title}</summary>
      <pre className="scroll-x" tabIndex={0}>
        {JSON.stringify(value, null, 1)}
      </pre>
    </details>
  );
}
