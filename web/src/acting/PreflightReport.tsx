// What the checks before a launch found: what fails first, with its remedy; overriding is by name.
import type { JSX } from "react";

import type { Check, CheckCode, Preflight } from "../api/types";
import { checkName, seconds } from "../ui/words";
import "./PreflightReport.css";

interface Props {
  preflight: Pick<Preflight, "checks" | "took_s" | "engine_version">;
  overridden: readonly CheckCode[];
  onOverride: (code: CheckCode, isOverridden: boolean) => void;
}

export function PreflightReport({ preflight, overridden, onOverride }: Props): JSX.Element {
  const of = (outcome: Check["outcome"]): Check[] => preflight.checks.filter((check) => check.outcome === outcome);
  const fails = of("fail");
  const warns = of("warn");
  const passes = of("pass");
  const skipped = of("skipped");
  return (
    <section className="stack tight" aria-label="Preflight">
      <p role="status">
        <strong>
          {fails.length > 0
            ? `Preflight: ${fails.length} of ${preflight.checks.length} checks fail. A launch is refused.`
            : warns.length > 0
              ? `Preflight passed, with ${warns.length === 1 ? "a warning" : `${warns.length} warnings`}.`
              : "Preflight passed."}
        </strong>{" "}
        <span className="muted small">
          {seconds(preflight.took_s)}, no GPU touched
          {preflight.engine_version && `, judged by SGLang ${preflight.engine_version}`}
        </span>
      </p>
      <ul className="stack tight">
        {fails.map((check) => (
          <CheckItem key={check.code} check={check}>
            <label className="small">
              <input
                type="checkbox"
                checked={overridden.includes(check.code)}
                onChange={(event) => onOverride(check.code, event.target.checked)}
              />
              Launch although <code>{check.code}</code> fails: I know better
            </label>
          </CheckItem>
        ))}
        {warns.map((check) => (
          <CheckItem key={check.code} check={check} />
        ))}
      </ul>
      {passes.length > 0 && <Folded title={`${passes.length} passed`} checks={passes} />}
      {skipped.length > 0 && <Folded title={`${skipped.length} could not be judged, or do not apply`} checks={skipped} />}
    </section>
  );
}

function CheckItem({ check, children }: { check: Check; children?: JSX.Element }): JSX.Element {
  return (
    <li className={`check check-${check.outcome}`}>
      <strong>
        {checkName(check.code)}: {check.outcome}
      </strong>
      <span>{check.found}</span>
      {check.remedy && (
        <span>
          <strong>What to do:</strong> {check.remedy}
        </span>
      )}
      {children}
    </li>
  );
}

function Folded({ title, checks }: { title: string; checks: Check[] }): JSX.Element {
  return (
    <details>
      <summary className="small">{title}</summary>
      <ul className="small">
        {checks.map((check) => (
          <li key={check.code}>
            {checkName(check.code)}: <span className="muted">{check.found}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
