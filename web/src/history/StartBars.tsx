// Where the time of each start went: one bar a start, its phases stacked in their order.
import type { JSX } from "react";

import type { Phase, Start, StartupHistory } from "../api/types";
import { to } from "../route";
import { Empty } from "../ui/Empty";
import { clock, phaseName, PHASE_ORDER, seconds } from "../ui/words";
import "./StartBars.css";

const MOST = 20;

export function StartBars({ history }: { history: StartupHistory }): JSX.Element {
  const starts = history.starts.slice(0, MOST);
  if (starts.length === 0) return <Empty title="No start of this profile has become ready yet" />;
  const longest = Math.max(...starts.map((start) => start.ready_after_s));
  const isSeen = (phase: Phase): boolean =>
    starts.some((start) => start.phases.some((item) => item.phase === phase && item.duration_s > longest / 200));
  const phases = PHASE_ORDER.filter(isSeen);
  return (
    <figure className="stack tight">
      {history.last && <LastStart last={history.last} />}
      <ol className="start-bars">
        {starts.map((start) => (
          <li key={start.launch_id}>
            <a href={to("launches", start.launch_id)} className="small">
              {clock(start.created_at)}
            </a>
            <StackedBar start={start} longest={longest} />
            <span className="number">{seconds(start.ready_after_s)}</span>
          </li>
        ))}
      </ol>
      <figcaption className="start-key small">
        {phases.map((phase) => (
          <span key={phase}>
            <svg viewBox="0 0 10 10" aria-hidden="true">
              <rect width="10" height="10" fill={hue(phase)} />
            </svg>
            {phaseName(phase)}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function StackedBar({ start, longest }: { start: Start; longest: number }): JSX.Element {
  let x = 0;
  const said = start.phases.map(({ phase, duration_s }) => `${phaseName(phase)} ${seconds(duration_s)}`).join(", ");
  return (
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={said}>
      <title>{said}</title>
      <rect width={(100 * start.ready_after_s) / longest} height="10" className="start-rest" />
      {start.phases.map(({ phase, duration_s }) => {
        const width = (100 * duration_s) / longest;
        const bar = <rect key={phase} x={x} width={width} height="10" fill={hue(phase)} />;
        x += width;
        return bar;
      })}
    </svg>
  );
}

function LastStart({ last }: { last: NonNullable<StartupHistory["last"]> }): JSX.Element {
  return (
    <p>
      The last start was <strong>{last.verdict}</strong>: {seconds(last.duration_s)} against {seconds(last.median_s)} (median
      of {last.start_count}). {last.why.join("; ")}
    </p>
  );
}

const HUES: Partial<Record<Phase, number>> = {
  loading_weights: 1,
  capturing_graphs: 2,
  warming_up: 3,
  compiling_kernels: 4,
  loading_draft_weights: 5,
  allocating_kv_cache: 6,
  distributed_init: 7,
};

function hue(phase: Phase): string {
  return `var(--series-${HUES[phase] ?? 8})`;
}
