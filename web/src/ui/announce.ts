// Says something to who listens instead of reading, without moving the focus.
import { Store } from "../live/store";

export const announcement = new Store("");

export function announce(text: string): void {
  announcement.set("");
  setTimeout(() => announcement.set(text), 50);
}
