// Finds a text in the lines that were read, and goes from one place to the next.
import { useMemo, useState, type JSX } from "react";

import { linesWith } from "./find";
import type { LogPicture } from "./LogTail";

interface Props {
  picture: LogPicture;
  /** Called with the number of the line to show. */
  onShow: (line: number) => void;
}

export function LogSearch({ picture: { lines, version }, onShow }: Props): JSX.Element {
  const [text, setText] = useState("");
  const [turn, setTurn] = useState(-1);
  const found = useMemo(() => linesWith(lines.kept, text), [lines, version, text]);
  const step = (by: 1 | -1): void => {
    if (found.length === 0) return;
    const next = turn < 0 && by < 0 ? found.length - 1 : (turn + by + found.length) % found.length;
    setTurn(next);
    onShow(lines.first + (found[next] ?? 0));
  };
  return (
    <form
      className="log-search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        step(1);
      }}
    >
      <input
        type="search"
        aria-label="Find in the log"
        placeholder="Find in the log"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setTurn(-1);
        }}
      />
      <button type="button" onClick={() => step(-1)} disabled={found.length === 0} aria-label="The place before">
        ↑
      </button>
      <button type="submit" disabled={found.length === 0} aria-label="The next place">
        ↓
      </button>
      <span className="small muted number" role="status">
        {text && (found.length === 0 ? "nothing" : turn < 0 ? `${found.length} lines` : `${turn + 1} of ${found.length}`)}
      </span>
    </form>
  );
}
