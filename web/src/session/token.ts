// The token of this tab: kept in sessionStorage, sent in a header, never in an address.
import { Store } from "../live/store";

const KEY = "vigil.token";

export interface Session {
  value: string | null;
  /** The service wants a token, and this one (or none) was refused. */
  isWanted: boolean;
}

export const session = new Store<Session>({ value: sessionStorage.getItem(KEY), isWanted: false });

export const token = {
  header(): Record<string, string> {
    const { value } = session.get();
    return value ? { Authorization: `Bearer ${value}` } : {};
  },
  keep(value: string): void {
    sessionStorage.setItem(KEY, value);
    session.set({ value, isWanted: false });
  },
  forget(): void {
    sessionStorage.removeItem(KEY);
    session.update({ value: null });
  },
  refused(): void {
    session.update({ isWanted: true });
  },
};
