// Who the service takes this tab for; what his role does not cover is not offered.
import { answerOf, api } from "../api/client";
import type { Caller } from "../api/types";
import { Store, useStore } from "../live/store";

/** Null until the service has said it. */
export const caller = new Store<Caller | null>(null);

/** Asks; when there is no answer, what was known stays. */
export async function readCaller(): Promise<void> {
  try {
    caller.set(await answerOf(api.GET("/api/v1/caller")));
  } catch {
    // Whatever is wrong shows in the picture of the fleet; the service itself refuses what may not be done.
  }
}

/** False for a viewer: everything that this page does needs an operator. */
export function useMayAct(): boolean {
  return useStore(caller, (value) => value?.role !== "viewer");
}
