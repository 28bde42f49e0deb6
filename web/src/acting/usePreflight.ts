// Has the checks of a launch made, and keeps which of the failed ones are overridden.
import { useState } from "react";

import { answerOf, api } from "../api/client";
import type { components } from "../api/schema";
import type { CheckCode, Preflight } from "../api/types";
import { useResource, type Resource } from "../live/resource";

export type PreflightWish = components["schemas"]["PreflightCreate"];

export interface Checked {
  report: Resource<Preflight>;
  overridden: CheckCode[];
  override: (code: CheckCode, isOverridden: boolean) => void;
  /** Every check that fails is overridden, or none fails. */
  isClear: boolean;
}

/** Checks whenever the wish changes; with null nothing is checked. */
export function usePreflight(wish: PreflightWish | null): Checked {
  const [chosen, setChosen] = useState<CheckCode[]>([]);
  const report = useResource(wish && JSON.stringify(wish), () => answerOf(api.POST("/api/v1/preflights", { body: wish! })));
  const fails = (report.value?.checks ?? []).filter((check) => check.outcome === "fail").map((check) => check.code);
  const overridden = fails.filter((code) => chosen.includes(code));
  return {
    report,
    overridden,
    override: (code, isOverridden) =>
      setChosen((before) => (isOverridden ? [...before, code] : before.filter((other) => other !== code))),
    isClear: report.value !== undefined && overridden.length === fails.length,
  };
}
