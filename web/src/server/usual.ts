// How long each phase usually takes: from earlier starts of the profile on the same node.
import { answerOf, api } from "../api/client";
import type { Phase, Start } from "../api/types";
import { useResource } from "../live/resource";

export interface Usual {
  /** How many earlier starts tell. */
  starts: number;
  phases: ReadonlyMap<Phase, { p50: number; p90: number }>;
}

const NOTHING: Usual = { starts: 0, phases: new Map() };

interface Subject {
  id: string;
  node: string;
  created_at: string;
}

/** Nothing until it is known; a launch is compared with those before it, never with itself. */
export function useUsual(profile: string | null, launch: Subject | undefined): Usual {
  const history = useResource(profile && launch ? `${profile} ${launch.id}` : null, async () => {
    const params = { path: { profile: profile! }, query: { node: launch!.node } };
    const { starts } = await answerOf(api.GET("/api/v1/profiles/{profile}/startup-history", { params }));
    return usualOf(starts.filter((start) => start.created_at < launch!.created_at));
  });
  return history.value ?? NOTHING;
}

export function usualOf(starts: readonly Start[]): Usual {
  const lengths = new Map<Phase, number[]>();
  for (const { phase, duration_s } of starts.flatMap((start) => start.phases)) {
    lengths.set(phase, [...(lengths.get(phase) ?? []), duration_s]);
  }
  const ranges = [...lengths].map(([phase, values]) => [phase, { p50: quantile(values, 0.5), p90: quantile(values, 0.9) }] as const);
  return { starts: starts.length, phases: new Map(ranges) };
}

/** Between the two nearest values, as the service does it. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  const place = share * (sorted.length - 1);
  const below = sorted[Math.floor(place)] ?? 0;
  const above = sorted[Math.ceil(place)] ?? below;
  return below + (above - below) * (place % 1);
}
