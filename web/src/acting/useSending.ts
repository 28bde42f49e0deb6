// Sends one wish: at most once at a time, with a key of its own that stays while the wish does.
import { useMemo, useState } from "react";

import { asTrouble, type Trouble } from "../api/problem";
import { newKey, send, type Wish } from "./request";

export interface Sending<T> {
  key: string;
  isUnderWay: boolean;
  trouble: Trouble | null;
  go: () => Promise<void>;
  done: T | null;
}

export function useSending<T>(wish: Wish, onDone: (answer: T) => void): Sending<T> {
  const said = JSON.stringify(wish);
  const key = useMemo(() => newKey(), [said]);
  const [isUnderWay, setUnderWay] = useState(false);
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  const [done, setDone] = useState<T | null>(null);
  const go = async (): Promise<void> => {
    if (isUnderWay) return;
    setUnderWay(true);
    setTrouble(null);
    try {
      const answer = await send<T>(wish, key);
      setDone(answer);
      onDone(answer);
    } catch (error) {
      setTrouble(asTrouble(error));
    } finally {
      setUnderWay(false);
    }
  };
  return { key, isUnderWay, trouble, go, done };
}
