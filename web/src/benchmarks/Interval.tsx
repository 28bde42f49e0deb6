// A change with its interval, in words and as a bar around "no change"; the band is what does not count.
import type { JSX } from "react";

import type { MetricCompared } from "../api/types";
import "./Interval.css";

const SPAN = 0.3; // the axis reaches to 30 % either way

export function Interval({ metric }: { metric: MetricCompared }): JSX.Element {
  const { ratio, ratio_low: low, ratio_high: high, threshold } = metric;
  if (ratio === null) return <span className="muted">–</span>;
  const x = (value: number): number => 50 + 50 * Math.max(-1, Math.min(1, (value - 1) / SPAN));
  const isKnown = low !== null && high !== null;
  return (
    <span className="interval">
      <svg viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
        <rect className="interval-band" x={x(1 - threshold)} width={x(1 + threshold) - x(1 - threshold)} height="12" />
        <line className="interval-none" x1="50" x2="50" y1="0" y2="12" />
        {isKnown && <rect className="interval-bar" x={x(low)} width={Math.max(1, x(high) - x(low))} y="4" height="4" />}
        <rect className="interval-mean" x={x(ratio) - 0.8} width="1.6" y="1" height="10" />
      </svg>
      <span className="number">
        {change(ratio)}
        {isKnown && (
          <span className="muted">
            {" "}
            ({change(low)} to {change(high)})
          </span>
        )}
      </span>
    </span>
  );
}

function change(ratio: number): string {
  const percent = (ratio - 1) * 100;
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${Math.abs(percent).toFixed(1)} %`;
}
