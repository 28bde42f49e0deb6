// The lines of a log: numbered by newlines, as an editor does; of a line that was drawn over, its last state.

export const MOST_LINES = 20_000;

export class Lines {
  /** Every whole line that is kept; one array for ever, so that a long log costs no copies. */
  readonly kept: string[] = [];
  /** The number of the first that is kept, from 1. */
  first = 1;
  #pending = "";

  constructor(private readonly most = MOST_LINES) {}

  feed(text: string): void {
    const parts = (this.#pending + text).split("\n");
    this.#pending = parts.pop() ?? "";
    for (const part of parts) this.kept.push(lastState(part));
    const tooMany = this.kept.length - this.most;
    if (tooMany <= 0) return;
    this.kept.splice(0, tooMany);
    this.first += tooMany;
  }

  /** What came after the last newline, such as a bar that is being drawn. */
  get last(): string {
    return lastState(this.#pending);
  }
}

const COLOURS = /\x1b\[[0-9;?]*[ -/]*[@-~]/g;

function lastState(line: string): string {
  const states = line.replace(COLOURS, "").split("\r").filter(Boolean);
  return states.at(-1) ?? "";
}
