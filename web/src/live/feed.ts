// Follows a stream of the service for as long as it is wanted, and resumes after the last event that it heard.
import { open } from "../api/client";
import { asTrouble, Refusal, type Trouble } from "../api/problem";
import { readEvents, type StreamEvent } from "./sse";

const SILENCE_MS = 40_000; // the service says something every 15 s
const PAUSES_MS = [300, 1_000, 2_000, 4_000, 8_000];
const SOUND_MS = 10_000; // a stream that lived so long was no failure

export interface FeedReader {
  onOpen(): void;
  onEvent(event: StreamEvent): void;
  /** It broke off, or could not be opened; it is tried again, unless the token is refused. */
  onLost(trouble: Trouble): void;
}

export class Feed {
  #lastId = "";
  #failures = 0;

  /** `path` may depend on the id of the last event, where the stream does not resume by its header. */
  constructor(
    private readonly path: (lastId: string) => string,
    private readonly reader: FeedReader,
    private readonly signal: AbortSignal,
  ) {}

  async run(): Promise<void> {
    while (!this.signal.aborted) {
      const since = Date.now();
      const trouble = await this.#listen();
      if (Date.now() - since > SOUND_MS) this.#failures = 0;
      if (this.signal.aborted) return;
      this.reader.onLost(trouble);
      if (trouble instanceof Refusal && (trouble.status === 401 || trouble.status === 403)) return;
      await pause(PAUSES_MS[Math.min(this.#failures++, PAUSES_MS.length - 1)] ?? 0, this.signal);
    }
  }

  /** Reads until the stream ends, and returns why it did. */
  async #listen(): Promise<Trouble> {
    const silence = new AbortController();
    const expect = (): number => window.setTimeout(() => silence.abort(), SILENCE_MS);
    let timer = expect();
    try {
      const response = await open(this.path(this.#lastId), {
        headers: { Accept: "text/event-stream", ...(this.#lastId && { "Last-Event-ID": this.#lastId }) },
        signal: AbortSignal.any([this.signal, silence.signal]),
        cache: "no-store",
      });
      this.reader.onOpen();
      for await (const event of readEvents(response.body!)) {
        clearTimeout(timer);
        timer = expect();
        if (event) this.#take(event);
      }
      return asTrouble(new TypeError("the stream ended"));
    } catch (error) {
      return asTrouble(error instanceof DOMException ? new TypeError(error.message) : error);
    } finally {
      clearTimeout(timer);
    }
  }

  #take(event: StreamEvent): void {
    if (event.id) this.#lastId = event.id;
    if (event.data) this.reader.onEvent(event);
  }
}

/** Waits, or until it is given up. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms * (0.75 + Math.random() / 2));
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
