// Reads server-sent events from the body of an answer: EventSource cannot send a token.

export interface StreamEvent {
  kind: string;
  id: string;
  data: string;
}

/** Yields the events of a stream, and null for each sign of life without one. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent | null> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      yield null;
      yield* parser.feed(decoder.decode(part.value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Cuts text into events, wherever it was broken on the way. One that tells its id only has no data. */
export class EventParser {
  #rest = "";
  #event = blank();
  #lastId = "";

  feed(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line !== "") {
        this.#take(line);
        continue;
      }
      const { kind, id, data } = this.#event;
      if (id !== this.#lastId || data.length > 0) events.push({ kind, id, data: data.join("\n") });
      this.#lastId = id;
      this.#event = { ...blank(), id };
    }
    return events;
  }

  #take(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#event.data.push(value);
    else if (field === "event") this.#event.kind = value;
    else if (field === "id") this.#event.id = value;
  }
}

function blank(): { kind: string; id: string; data: string[] } {
  return { kind: "message", id: "", data: [] };
}
