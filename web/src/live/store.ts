// A value that components can watch; they render again only when the part that they chose has changed.
import { useSyncExternalStore } from "react";

export class Store<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of this.#watchers) watcher();
  }

  update(change: Partial<T>): void {
    this.set({ ...this.#value, ...change });
  }

  watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };
}

/** `choose` must return the same thing for the same value: a field, a member, a number. */
export function useStore<T, Part>(store: Store<T>, choose: (value: T) => Part): Part {
  return useSyncExternalStore(store.watch, () => choose(store.get()));
}
