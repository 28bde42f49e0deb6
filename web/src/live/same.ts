// Keeps what did not change the same object, so that only rows that changed are drawn again.

interface Named {
  name: string;
}

/** Returns the items by name, in the order of their names. */
export function keepSame<T extends Named>(before: ReadonlyMap<string, T> | null, items: readonly T[]): Map<string, T> {
  const sorted = [...items].sort((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  return new Map(sorted.map((item) => [item.name, same(before?.get(item.name), item)]));
}

function same<T>(known: T | undefined, item: T): T {
  return known !== undefined && JSON.stringify(known) === JSON.stringify(item) ? known : item;
}
