// What is thought of a launch, and on what evidence.
import type { JSX } from "react";

import type { Verdict } from "../api/types";
import { VerdictMark } from "../ui/VerdictMark";
import { clock, plain, wholeSeconds } from "../ui/words";

export function VerdictLine({ verdict }: { verdict: Verdict }): JSX.Element {
  return (
    <div className="stack tight">
      <p className="row">
        <VerdictMark verdict={verdict.verdict} />
        <span>{verdict.message}</span>
      </p>
      {verdict.last_mark && (
        <details>
          <summary className="small">How that is known</summary>
          <dl className="facts small">
            <Fact name="Last sign of progress">
              {plain(verdict.last_mark.source)}: {verdict.last_mark.value}
              {verdict.last_mark_at && <> at {clock(verdict.last_mark_at)}</>}
            </Fact>
            {verdict.expected_s && (
              <Fact name="This phase usually takes">
                {wholeSeconds(verdict.expected_s.p50)} to {wholeSeconds(verdict.expected_s.p90)}
                {verdict.sample_count != null && <>, from {verdict.sample_count} starts</>}
              </Fact>
            )}
            {verdict.deadline_s != null && (
              <Fact name="Deadline without a sign">
                {wholeSeconds(verdict.deadline_s)}: {verdict.deadline_why}
              </Fact>
            )}
            {verdict.hung_at && <Fact name="Suspected hung at">{clock(verdict.hung_at)}, if nothing moves</Fact>}
            {verdict.still_since && Object.keys(verdict.still_since).length > 0 && (
              <Fact name="Still">
                {Object.entries(verdict.still_since)
                  .map(([source, at]) => `${plain(source)} since ${clock(at)}`)
                  .join(", ")}
              </Fact>
            )}
          </dl>
        </details>
      )}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
