// The token of this tab: kept in sessionStorage, sent in a header, never in an address.
import { Store } from "../live/store";

const KEY = "vigil.token";

export interface Session {
  value: string | null;
  /** The service wants a token, and this one (or none) was refused. */
  isWanted: boolean;
  /** Grows with each that is entered or forgotten: the one that was refused may be entered again, and then be taken. */
  turn: number;
}

export const session = new Store<Session>({ value: sessionStorage.getItem(KEY), isWanted: false, turn: 0 });

export const token = {
  header(): Record<string, string> {
    const { value } = session.get();
    return value ? { Authorization: `Bearer ${value}` } : {};
  },
  keep(value: string): void {
    sessionStorage.setItem(KEY, value);
    session.set({ value, isWanted: false, turn: session.get().turn + 1 });
  },
  forget(): void {
    sessionStorage.removeItem(KEY);
    session.update({ value: null, turn: session.get().turn + 1 });
  },
  refused(): void {
    session.update({ isWanted: true });
  },
};
