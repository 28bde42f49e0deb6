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
  const of = wish && JSON.stringify(wish);
  const [choice, setChoice] = useState<{ of: string | null; codes: CheckCode[] }>({ of, codes: [] });
  // What somebody knows better of one launch says nothing of another, though the same check fails.
  const chosen = choice.of === of ? choice.codes : [];
  const report = useResource(of, () => answerOf(api.POST("/api/v1/preflights", { body: wish! })));
  const fails = (report.value?.checks ?? []).filter((check) => check.outcome === "fail").map((check) => check.code);
  const overridden = fails.filter((code) => chosen.includes(code));
  return {
    report,
    overridden,
    override: (code, isOverridden) =>
      setChoice({ of, codes: isOverridden ? [...chosen, code] : chosen.filter((other) => other !== code) }),
    isClear: report.value !== undefined && overridden.length === fails.length,
  };
}
