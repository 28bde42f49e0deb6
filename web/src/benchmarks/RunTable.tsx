// Runs as rows: what was measured, how it went, and what the comparison with the baseline said.
import type { JSX } from "react";

import type { Run } from "../api/types";
import { to } from "../route";
import { clock } from "../ui/words";
import { BenchmarkVerdictMark } from "./BenchmarkVerdictMark";
import { figure, metricTitle } from "./metrics";
import { RunStateMark } from "./RunStateMark";

interface Props {
  runs: readonly Run[];
  chosen: readonly string[];
  onChoose: (id: string, isChosen: boolean) => void;
}

const SHOWN = ["output_throughput_tps", "ttft_p50_ms", "tpot_p50_ms", "accept_length"];

export function RunTable({ runs, chosen, onChoose }: Props): JSX.Element {
  return (
    <div className="scroll-x card" tabIndex={0} role="region" aria-label="Runs">
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden-text">Compare</span>
            </th>
            <th scope="col">Run</th>
            <th scope="col">Benchmark</th>
            <th scope="col">Of</th>
            <th scope="col">State</th>
            {SHOWN.map((name) => (
              <th key={name} scope="col">
                {metricTitle(name)}
              </th>
            ))}
            <th scope="col">Against the baseline</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.id}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`Compare the run of ${clock(run.created_at)}`}
                  disabled={run.points.length === 0}
                  checked={chosen.includes(run.id)}
                  onChange={(event) => onChoose(run.id, event.target.checked)}
                />
              </td>
              <td className="number">
                <a href={to("benchmarks", "runs", run.id)}>{clock(run.created_at)}</a>
              </td>
              <td>{run.benchmark ?? "not named"}</td>
              <td>
                {run.server ?? run.profile ?? run.model ?? "unknown"}
                {run.profile_version !== null && ` v${run.profile_version}`}
              </td>
              <td>
                <RunStateMark run={run} />
              </td>
              {SHOWN.map((name) => (
                <td key={name} className="number">
                  {figures(run, name)}
                </td>
              ))}
              <td>{run.baseline && <BenchmarkVerdictMark verdict={run.baseline.verdict} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Over the points of load: one number, or the least and the most. */
function figures(run: Run, name: string): string {
  const values = run.points.map((point) => point.metrics[name]).filter((value) => value !== undefined);
  if (values.length === 0) return "–";
  const [least, most] = [figure(Math.min(...values), name), figure(Math.max(...values), name)];
  return least === most ? least : `${least} to ${most}`;
}
