// Something that one view reads for itself: its value, why it could not be read, and how to read it again.
import { useCallback, useEffect, useRef, useState } from "react";

import { asTrouble, type Trouble } from "../api/problem";

export interface Resource<T> {
  /** The last that was read; it stays while a later reading fails. */
  value: T | undefined;
  trouble: Trouble | null;
  reload: () => void;
}

interface Options {
  /** Read again after so long, while the page is seen. */
  everyMs?: number | undefined;
  /** Readings with the same `keepAs` are of the same thing: the value stays while it is read anew. `key` by default. */
  keepAs?: string | null;
}

/** Reads whenever `key` changes; with null nothing is read. */
export function useResource<T>(key: string | null, read: () => Promise<T>, options: Options = {}): Resource<T> {
  const { everyMs, keepAs = key } = options;
  const [known, setKnown] = useState<{ of: string; value?: T; trouble: Trouble | null } | null>(null);
  const [turn, setTurn] = useState(0);
  const latest = useRef(read);
  latest.current = read;

  useEffect(() => {
    if (key === null || keepAs === null) return;
    let isWanted = true;
    const settle = (trouble: Trouble | null, value?: T): void => {
      if (!isWanted) return;
      setKnown((before) => {
        const shown = value ?? (before?.of === keepAs ? before.value : undefined);
        return { of: keepAs, trouble, ...(shown !== undefined && { value: shown }) };
      });
    };
    latest.current().then(
      (value) => settle(null, value),
      (error: unknown) => settle(asTrouble(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [key, keepAs, turn]);

  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (key === null || everyMs === undefined) return;
    const timer = setInterval(() => void (document.hidden || reload()), everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs, reload]);

  const isThis = known !== null && known.of === keepAs;
  return { value: isThis ? known.value : undefined, trouble: isThis ? known.trouble : null, reload };
}
