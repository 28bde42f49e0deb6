// One clock for all ages that the page shows.
import { useSyncExternalStore } from "react";

const watchers = new Set<() => void>();
let now = Date.now();
let timer: number | undefined;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= window.setInterval(tick, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function tick(): void {
  if (document.hidden) return;
  now = Date.now();
  for (const watcher of watchers) watcher();
}

/** The time, each second. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}
