// Reads the log of one launch: all of it where it is small, else its end; then follows it.
import { open } from "../api/client";
import { asTrouble, type Trouble } from "../api/problem";
import { Feed, pause } from "../live/feed";
import { Store } from "../live/store";
import { Lines } from "./lines";

const WHOLE_BYTES = 4 * 1_048_576;
const TAIL_LINES = 5_000;
const DRAW_EVERY_MS = 100;
const AGAIN_AFTER_MS = 2_000;

export interface LogPicture {
  lines: Lines;
  /** The lines are numbered only where all of them were read. */
  isWhole: boolean;
  state: "reading" | "following" | "ended" | "lost";
  trouble: Trouble | null;
  /** Grows whenever the lines have. */
  version: number;
}

export function emptyPicture(): LogPicture {
  return { lines: new Lines(), isWhole: true, state: "reading", trouble: null, version: 0 };
}

export class LogTail {
  readonly #ending = new AbortController();
  #timer: number | null = null;

  constructor(
    private readonly launchId: string,
    private readonly picture: Store<LogPicture>,
  ) {}

  close(): void {
    this.#ending.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Goes on until it is closed: what cannot be read now, as without contact to the node, is read later. */
  async start(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      this.picture.set({ ...emptyPicture(), trouble: this.picture.get().trouble });
      try {
        await this.#follow(await this.#readPast());
        return;
      } catch (error) {
        if (this.#ending.signal.aborted) return;
        this.picture.update({ state: "lost", trouble: asTrouble(error) });
      }
      await pause(AGAIN_AFTER_MS, this.#ending.signal);
    }
  }

  /** Returns the offset where following begins. */
  async #readPast(): Promise<number> {
    let { text, next, size } = await this.#read("offset=0");
    if (size > WHOLE_BYTES) {
      this.picture.update({ isWhole: false });
      ({ text, next, size } = await this.#read(`tail=${TAIL_LINES}`));
    }
    this.#take(text);
    while (next < size) {
      ({ text, next, size } = await this.#read(`offset=${next}`));
      if (text === "") break;
      this.#take(text);
    }
    return next;
  }

  async #follow(start: number): Promise<void> {
    const feed = new Feed(
      (lastId) => `${this.#path}?offset=${lastId || start}`,
      {
        onOpen: () => this.picture.update({ state: "following", trouble: null }),
        onEvent: ({ kind, data }) => {
          if (kind === "log") this.#take(JSON.parse(data) as string);
          if (kind !== "end") return;
          // Nothing is drawn after the end: whatever came just before it is drawn with it.
          this.picture.update({ state: "ended", version: this.picture.get().version + 1 });
          this.close();
        },
        onLost: (trouble) => this.picture.update({ state: "lost", trouble }),
      },
      this.#ending.signal,
    );
    await feed.run();
  }

  async #read(query: string): Promise<{ text: string; next: number; size: number }> {
    const answer = await open(`${this.#path}?${query}`, { signal: this.#ending.signal });
    return {
      text: await answer.text(),
      next: Number(answer.headers.get("x-log-next-offset")),
      size: Number(answer.headers.get("x-log-size")),
    };
  }

  get #path(): string {
    return `/api/v1/launches/${this.launchId}/log`;
  }

  /** Drawn at most ten times a second, however fast a log grows. */
  #take(text: string): void {
    this.picture.get().lines.feed(text);
    this.#timer ??= window.setTimeout(() => {
      this.#timer = null;
      this.picture.update({ version: this.picture.get().version + 1 });
    }, DRAW_EVERY_MS);
  }
}
