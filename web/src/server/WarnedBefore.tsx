// What the checks before the launch had said of it: the ones that failed and were overridden, and the warnings.
import type { JSX } from "react";

import type { Check, CheckCode } from "../api/types";
import { checkName } from "../ui/words";

interface Props {
  checks: readonly Check[];
  overridden: readonly CheckCode[];
}

export function WarnedBefore({ checks, overridden }: Props): JSX.Element | null {
  const told = checks.filter((check) => check.outcome === "fail" || check.outcome === "warn");
  if (told.length === 0) return null;
  return (
    <div className="stack tight">
      <p>
        <strong>The checks before this launch had said:</strong>
      </p>
      <ul className="stack tight">
        {told.map((check) => (
          <li key={check.code}>
            <strong>
              {checkName(check.code)}: {check.outcome}
              {overridden.includes(check.code) && ", overridden"}
            </strong>{" "}
            {check.found} {check.remedy}
          </li>
        ))}
      </ul>
    </div>
  );
}
