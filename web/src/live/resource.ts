// Something that one view reads for itself: its value, why it could not be read, and how to read it again.
import { useCallback, useEffect, useRef, useState } from "react";

import { asTrouble, type Trouble } from "../api/problem";

export interface Resource<T> {
  /** The last that was read; it stays while a later reading fails. */
  value: T | undefined;
  trouble: Trouble | null;
  reload: () => void;
}

interface Options<T> {
  /** How long after a reading the next comes, seeing what was read; null for never. Nothing is read unseen. */
  againAfterMs?: (value: T | undefined) => number | null;
  /** Readings with the same `keepAs` are of the same thing: the value stays while it is read anew. `key` by default. */
  keepAs?: string | null;
}

interface Known<T> {
  of: string;
  value?: T;
  trouble: Trouble | null;
}

/** Reads whenever `key` changes; with null nothing is read. A reading is never given up for the next. */
export function useResource<T>(key: string | null, read: () => Promise<T>, options: Options<T> = {}): Resource<T> {
  const { keepAs = key } = options;
  const [known, setKnown] = useState<Known<T> | null>(null);
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const latest = useRef({ read, options });
  latest.current = { read, options };

  useEffect(() => {
    if (key === null || keepAs === null) return;
    let isWanted = true;
    let timer: number | undefined;
    const rest = (value: T | undefined): void => {
      const pauseMs = latest.current.options.againAfterMs?.(value) ?? null;
      if (pauseMs !== null) timer = window.setTimeout(() => (document.hidden ? rest(value) : reload()), pauseMs);
    };
    const settle = (trouble: Trouble | null, value?: T): void => {
      if (!isWanted) return;
      setKnown((before) => {
        const shown = value ?? (before?.of === keepAs ? before.value : undefined);
        return { of: keepAs, trouble, ...(shown !== undefined && { value: shown }) };
      });
      rest(value);
    };
    latest.current.read().then(
      (value) => settle(null, value),
      (error: unknown) => settle(asTrouble(error)),
    );
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [key, keepAs, turn, reload]);

  const isThis = known !== null && known.of === keepAs;
  return { value: isThis ? known.value : undefined, trouble: isThis ? known.trouble : null, reload };
}
