// Sends one wish: never twice at once, with a key that stays while its answer is not known.
import { useMemo, useState } from "react";

import { asTrouble, type Trouble } from "../api/problem";
import { newKey, send, type Wish } from "./request";

export interface Sending {
  key: string;
  isUnderWay: boolean;
  trouble: Trouble | null;
  go: () => Promise<void>;
}

export function useSending<T>(wish: Wish, onDone: (answer: T) => void): Sending {
  const said = JSON.stringify(wish);
  const [turn, setTurn] = useState(0);
  const key = useMemo(() => newKey(), [said, turn]);
  const [isUnderWay, setUnderWay] = useState(false);
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  const go = async (): Promise<void> => {
    if (isUnderWay) return;
    setUnderWay(true);
    setTrouble(null);
    try {
      const answer = await send<T>(wish, key);
      setTurn((before) => before + 1);
      onDone(answer);
    } catch (error) {
      setTrouble(asTrouble(error));
    } finally {
      setUnderWay(false);
    }
  };
  return { key, isUnderWay, trouble, go };
}
