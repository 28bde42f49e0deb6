// The log of a launch: follows it, finds in it, and shows the line that proves something.
import { useEffect, useMemo, useState, type JSX } from "react";

import { Store, useStore } from "../live/store";
import { wantedLine } from "../server/logPlace";
import { Note } from "../ui/Note";
import { indexOf } from "./find";
import { LogSearch } from "./LogSearch";
import { emptyPicture, LogTail, type LogPicture } from "./LogTail";
import { LogWindow, type Place } from "./LogWindow";
import "./Log.css";

export function LogView({ launchId }: { launchId: string }): JSX.Element {
  const store = useMemo(() => new Store(emptyPicture()), []);
  const picture = useStore(store, (value) => value);
  const [place, setPlace] = useState<Place>("end");
  const evidence = useStore(wantedLine, (value) => value);
  useEffect(() => {
    const tail = new LogTail(launchId, store);
    void tail.start();
    return () => tail.close();
  }, [launchId, store]);

  const { lines, isWhole, version } = picture;
  useEffect(() => {
    if (!evidence) return;
    const index = indexOf(lines, evidence, isWhole);
    if (index === null) return;
    setPlace({ line: index + lines.first, isMarked: true });
    wantedLine.set(null);
  }, [evidence, lines, isWhole, version]);
  useEffect(() => () => wantedLine.set(null), []);

  return (
    <section className="card stack tight log" aria-labelledby="log">
      <div className="row spread">
        <h2 id="log">Log</h2>
        <span className="small muted">{said(picture)}</span>
      </div>
      <LogSearch picture={picture} onShow={(line) => setPlace({ line, isMarked: true })} />
      {picture.trouble && (
        <Note tone="warning" title={lines.kept.length > 0 ? "The log is not followed now" : "The log cannot be read now"}>
          <p>{picture.trouble.message}</p>
        </Note>
      )}
      <LogWindow picture={picture} place={place} onPlace={setPlace} />
      <div className="row spread">
        <label className="small">
          <input
            type="checkbox"
            checked={place === "end"}
            onChange={(event) => setPlace(event.target.checked ? "end" : "free")}
          />
          Follow the end
        </label>
        {!isWhole && <span className="small muted">It is long: this is its end, without line numbers.</span>}
      </div>
    </section>
  );
}

function said({ state, lines }: LogPicture): string {
  const count = `${lines.first - 1 + lines.kept.length} lines`;
  switch (state) {
    case "reading":
      return "reading …";
    case "following":
      return `${count}, live`;
    case "ended":
      return `${count}, complete`;
    case "lost":
      return `${count}, not live`;
  }
}
