// Why something could not be read or done, in the service's own words, with its remedy.
// Where nothing can be read again from here, it is an action that failed.
import type { JSX } from "react";

import { Refusal, type Trouble } from "../api/problem";
import { Note } from "./Note";

interface Props {
  trouble: Trouble;
  onRetry?: () => void;
}

export function TroubleNote({ trouble, onRetry }: Props): JSX.Element {
  const problem = trouble instanceof Refusal ? trouble.problem : null;
  const isForbidden = problem?.status === 403;
  return (
    <Note tone={isForbidden ? "warning" : "failure"} title={isForbidden ? "Your token may not do this" : trouble.message} isAlert>
      {isForbidden && <p>{problem.detail}</p>}
      {problem ? (
        <p>{problem.remedy}</p>
      ) : (
        <p>
          {!onRetry && "Nobody knows whether it was done. Do it again: it has the same key, and is done once. "}
          Look whether the service runs and can be reached.
        </p>
      )}
      {problem && (
        <p className="small muted">
          <code>{problem.code}</code>
        </p>
      )}
      {onRetry && (
        <p>
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        </p>
      )}
    </Note>
  );
}
