// What the comparison with the profile's baseline said, with the accept length beside it.
import type { JSX } from "react";

import type { RunDetail } from "../api/types";
import { to } from "../route";
import { Note } from "../ui/Note";
import { plain } from "../ui/words";
import { BenchmarkVerdictMark } from "./BenchmarkVerdictMark";
import { figure, metricTitle } from "./metrics";

interface Props {
  run: RunDetail;
  baseline: NonNullable<RunDetail["baseline"]>;
}

export function BaselineNote({ run, baseline }: Props): JSX.Element {
  const tone = { regressed: "failure", improved: "success" } as const;
  return (
    <Note
      tone={baseline.verdict === "regressed" || baseline.verdict === "improved" ? tone[baseline.verdict] : "calm"}
      title={`Against the baseline: ${plain(baseline.verdict)}`}
    >
      <ul className="stack tight">
        {baseline.points.map((point) => (
          <li key={point.load} className="row">
            <span>{point.load}</span>
            <BenchmarkVerdictMark verdict={point.verdict} />
            {point.baseline !== null && point.candidate !== null && (
              <strong className="number">
                {metricTitle(point.metric)} {figure(point.candidate, point.metric)} against {figure(point.baseline, point.metric)}
              </strong>
            )}
            {point.accept_length && (
              <span>
                accept length {length(point.accept_length.candidate)} against {length(point.accept_length.baseline)}
              </span>
            )}
            <span className="small muted">{point.reasons.join("; ")}</span>
          </li>
        ))}
      </ul>
      <p>
        <a href={to("benchmarks", "comparison", baseline.baseline_run_id, run.id)}>The whole comparison</a>
      </p>
    </Note>
  );
}

function length(value: number | null | undefined): string {
  return value === null || value === undefined ? "unknown" : value.toFixed(2);
}
