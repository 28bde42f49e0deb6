// What a comparison came to.
import type { JSX } from "react";

import type { BenchmarkVerdict } from "../api/types";
import { plain } from "../ui/words";

const TONES: Record<BenchmarkVerdict, string> = {
  improved: "good",
  regressed: "bad",
  equivalent: "calm",
  inconclusive: "calm",
  not_comparable: "warning",
};

export function BenchmarkVerdictMark({ verdict }: { verdict: BenchmarkVerdict }): JSX.Element {
  return <span className={`verdict verdict-${TONES[verdict]}`}>{plain(verdict)}</span>;
}
