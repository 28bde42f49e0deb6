// The phases of a start as they came, each against its usual range; those that are still to come are faint.
import type { JSX } from "react";

import type { Eta, Launch, Phase } from "../api/types";
import { useNow } from "../live/clock";
import { many, phaseName, range as said, seconds, secondsBetween } from "../ui/words";
import { staysOf, type Stay } from "./stays";
import type { Usual } from "./usual";
import "./Timeline.css";

interface Props {
  launch: Launch;
  usual: Usual;
  eta: Eta | null;
}

const LONGER = 1.25;

export function Timeline({ launch, usual, eta }: Props): JSX.Element {
  const now = useNow();
  const stays = staysOf(launch, now);
  const comes = (eta?.phases ?? []).filter(({ phase }) => !stays.some((stay) => stay.phase === phase));
  const longest = Math.max(
    0.1,
    ...stays.map((stay) => stay.seconds ?? 0),
    ...stays.map((stay) => usual.phases.get(stay.phase)?.p90 ?? 0),
    ...comes.map((item) => usual.phases.get(item.phase)?.p90 ?? item.remaining_p90_s),
  );
  if (stays.length === 0) return <p className="muted">Its log has told no phase yet.</p>;
  return (
    <div className="stack tight">
      <ol className="timeline">
        {stays.map((stay, index) => (
          <Row key={index} stay={stay} usual={usual} longest={longest} />
        ))}
        {comes.map(({ phase, remaining_p50_s }) => (
          <li key={phase} className="phase phase-comes">
            <span className="phase-name">{phaseName(phase)}</span>
            <Bar seconds={0} phase={phase} usual={usual} longest={longest} />
            <span className="phase-time number">about {seconds(remaining_p50_s)}</span>
          </li>
        ))}
      </ol>
      <Total launch={launch} now={now} usual={usual} />
    </div>
  );
}

function Row({ stay, usual, longest }: { stay: Stay; usual: Usual; longest: number }): JSX.Element {
  const { phase, progress, isNow, isDone } = stay;
  return (
    <li className={`phase${isNow ? " phase-now" : ""}`} aria-current={isNow ? "step" : undefined}>
      <span className="phase-name">
        {phaseName(phase)}
        {progress && (
          <span className="muted small number">
            {isDone ? "" : `${progress.done} of `}
            {progress.total} {progress.unit}
          </span>
        )}
      </span>
      <Bar seconds={stay.seconds ?? 0} phase={phase} usual={usual} longest={longest} isNow={isNow} />
      <span className="phase-time number">
        {stay.seconds === null ? "time not told" : seconds(stay.seconds)}
        <Compared stay={stay} usual={usual} />
      </span>
    </li>
  );
}

function Compared({ stay, usual }: { stay: Stay; usual: Usual }): JSX.Element | null {
  const range = usual.phases.get(stay.phase);
  if (!range || stay.seconds === null || Math.max(range.p90, stay.seconds) < 1) return null;
  const isLonger = stay.seconds > range.p90 * LONGER && stay.seconds > range.p90 + 1;
  return (
    <span className={isLonger ? "phase-longer small" : "muted small"}>
      {isLonger ? "longer; usually " : "usually "}
      {said(range.p50, range.p90)}
    </span>
  );
}

interface BarProps {
  seconds: number;
  phase: Phase;
  usual: Usual;
  longest: number;
  isNow?: boolean;
}

function Bar({ seconds: value, phase, usual, longest, isNow = false }: BarProps): JSX.Element {
  const range = usual.phases.get(phase);
  const at = (length: number): number => (100 * Math.min(length, longest)) / longest;
  return (
    <svg className="phase-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect className="phase-track" width="100" height="10" />
      {range && (
        <rect
          className="phase-usual"
          x={at(range.p50)}
          width={Math.max(0.8, at(range.p90) - at(range.p50))}
          height="10"
        />
      )}
      <rect className={isNow ? "phase-fill breathing" : "phase-fill"} y="2" width={Math.max(value > 0 ? 0.6 : 0, at(value))} height="6" />
    </svg>
  );
}

function Total({ launch, now, usual }: { launch: Launch; now: number; usual: Usual }): JSX.Element {
  const end = launch.ready_at ?? launch.ended_at;
  const took = secondsBetween(launch.created_at, end ?? now);
  const what = launch.ready_at ? "from the request to ready" : launch.ended_at ? "from the request to the end" : "so far";
  return (
    <p className="small">
      <strong className="number">{seconds(took)}</strong> {what}
      {launch.cached_share !== null && (
        <span className="muted"> · {Math.round(launch.cached_share * 100)} % of the model's files were in the page cache before</span>
      )}
      <span className="muted">
        {" "}
        · {usual.starts > 0 ? `bands: usual range of ${many(usual.starts, "earlier start")} here` : "no earlier start to compare with"}
      </span>
    </p>
  );
}
