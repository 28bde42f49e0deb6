// Keeps of several answers about the same things the newest: one that was overtaken on its way changes nothing.

interface Thing {
  id: string;
  name: string;
}

export class Newest<T extends Thing> {
  #asked = 0;
  /** The question that the last whole list answered, and by id those that were answered since. */
  #whole = 0;
  readonly #since = new Map<string, number>();

  /** Returns the number of a question; it is drawn before asking. */
  ask(): number {
    return ++this.#asked;
  }

  /** Returns what is known after an answer about all there is. */
  all(question: number, known: Iterable<T>, answer: readonly T[]): T[] {
    const items = this.some(question, known, answer, this.#unnamed(known, answer));
    this.#whole = Math.max(this.#whole, question);
    for (const [id, since] of this.#since) if (since <= this.#whole) this.#since.delete(id);
    return items;
  }

  /** Returns what is known after an answer about some; `gone` are the ids of those that it says are not there. */
  some(question: number, known: Iterable<T>, answer: readonly T[], gone: ReadonlySet<string> = new Set()): T[] {
    const isNews = (id: string): boolean => question > Math.max(this.#whole, this.#since.get(id) ?? 0);
    const fresh = answer.filter(({ id }) => isNews(id));
    // A name may have gone to another thing, which then stands in the place of the one that had it.
    const names = new Set(fresh.map(({ name }) => name));
    const rest = [...known].filter(({ id, name }) => !names.has(name) && !(gone.has(id) && isNews(id)));
    for (const id of [...gone, ...fresh.map((item) => item.id)]) if (isNews(id)) this.#since.set(id, question);
    return [...fresh, ...rest];
  }

  #unnamed(known: Iterable<T>, answer: readonly T[]): ReadonlySet<string> {
    const named = new Set(answer.map(({ id }) => id));
    return new Set([...known].map(({ id }) => id).filter((id) => !named.has(id)));
  }
}
