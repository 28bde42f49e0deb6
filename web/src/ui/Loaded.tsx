// One of three: what was read, why it could not be read, or that it is being read.
import type { JSX, ReactNode } from "react";

import { Refusal } from "../api/problem";
import type { Resource } from "../live/resource";
import { Note } from "./Note";
import { TroubleNote } from "./TroubleNote";

interface Props<T> {
  of: Resource<T>;
  what: string;
  children: (value: T) => ReactNode;
}

export function Loaded<T>({ of, what, children }: Props<T>): JSX.Element {
  if (of.value === undefined) {
    return of.trouble ? <TroubleNote trouble={of.trouble} onRetry={of.reload} /> : <Loading what={what} />;
  }
  return (
    <>
      {of.trouble && (
        <Note tone="warning" title={`This is as it was: ${what} could not be read again.`}>
          <p>{of.trouble instanceof Refusal ? of.trouble.problem.detail : of.trouble.message}</p>
        </Note>
      )}
      {children(of.value)}
    </>
  );
}

export function Loading({ what }: { what: string }): JSX.Element {
  return (
    <p className="muted breathing" role="status">
      Reading {what} …
    </p>
  );
}
