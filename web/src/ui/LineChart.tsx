// One series over time, with a line to compare it with: an SVG that says in words what it shows.
import type { JSX } from "react";

import { clock } from "./words";
import "./LineChart.css";

export interface Point {
  at: number;
  value: number;
}

interface Props {
  label: string;
  unit: string;
  points: readonly Point[];
  line: { value: number; name: string } | null;
  /** The axis begins here, or below where a value does. */
  least: number;
}

const WIDTH = 800;
const HEIGHT = 220;
const LEFT = 44;
const BOTTOM = 24;
const TOP = 10;

export function LineChart({ label, unit, points, line, least }: Props): JSX.Element {
  const values = [...points.map((point) => point.value), ...(line ? [line.value] : []), least];
  const low = Math.min(...values);
  const high = Math.max(...values, low + 0.1) * 1.05;
  const first = points[0]?.at ?? 0;
  const last = points.at(-1)?.at ?? first + 1;
  const x = (at: number): number =>
    points.length === 1 ? (LEFT + WIDTH) / 2 : LEFT + ((at - first) / Math.max(1, last - first)) * (WIDTH - LEFT - 10);
  const y = (value: number): number => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const ticks = [low, (low + high) / 2, high];
  return (
    <svg className="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {ticks.map((tick) => (
        <g key={tick}>
          <line className="chart-grid" x1={LEFT} x2={WIDTH} y1={y(tick)} y2={y(tick)} />
          <text x={LEFT - 6} y={y(tick) + 4} textAnchor="end">
            {tick.toFixed(2)}
          </text>
        </g>
      ))}
      {line && (
        <g className="chart-floor">
          <line x1={LEFT} x2={WIDTH} y1={y(line.value)} y2={y(line.value)} />
          <text x={WIDTH - 4} y={y(line.value) - 5} textAnchor="end">
            {line.name}
          </text>
        </g>
      )}
      <polyline className="chart-line" points={points.map((point) => `${x(point.at)},${y(point.value)}`).join(" ")} />
      {points.length <= 60 &&
        points.map((point) => <circle key={point.at} className="chart-point" cx={x(point.at)} cy={y(point.value)} r="3" />)}
      <text x={LEFT} y={HEIGHT - 6}>
        {clock(first)}
      </text>
      <text x={WIDTH - 4} y={HEIGHT - 6} textAnchor="end">
        {unit}, until {clock(last)}
      </text>
    </svg>
  );
}
