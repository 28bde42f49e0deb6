// Draws only those lines that are in view: a log of 20,000 lines costs no more than one of 50.
import { useEffect, useLayoutEffect, useRef, useState, type JSX } from "react";

import type { LogPicture } from "./LogTail";

/** The end, as it grows; a line by its number; or wherever the reader scrolled to. */
export type Place = "end" | "free" | { line: number; isMarked: boolean };

interface Props {
  picture: LogPicture;
  place: Place;
  onPlace: (place: Place) => void;
}

const LINE_PX = 20; // --log-line
const BEYOND = 30;
const SLACK_PX = 3;

export function LogWindow({ picture, place, onPlace }: Props): JSX.Element {
  const { lines, isWhole, version } = picture;
  const frame = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const last = lines.last;
  const count = lines.kept.length + (last ? 1 : 0);

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setHeight(entry?.contentRect.height ?? 400));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const box = frame.current!;
    if (place === "end") box.scrollTop = box.scrollHeight;
    else if (place !== "free") box.scrollTop = Math.max(0, (place.line - lines.first) * LINE_PX - box.clientHeight / 3);
  }, [place, version, count, lines]);

  const scrolled = (): void => {
    const box = frame.current!;
    setTop(box.scrollTop);
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < SLACK_PX;
    if (place === "end" && !isAtEnd && box.scrollTop < top) onPlace("free");
    if (place === "free" && isAtEnd && box.scrollTop > top) onPlace("end");
  };

  const from = Math.max(0, Math.floor(top / LINE_PX) - BEYOND);
  const until = Math.min(count, Math.ceil((top + height) / LINE_PX) + BEYOND);
  const marked = typeof place === "object" && place.isMarked ? place.line : null;
  return (
    <div className="log-frame" ref={frame} onScroll={scrolled} tabIndex={0} role="region" aria-label="Lines of the log">
      {count === 0 ? (
        <p className="muted log-empty">{picture.state === "reading" ? "Reading …" : "Nothing was logged yet."}</p>
      ) : (
        <div className="log-lines" style={{ height: count * LINE_PX }}>
          <div className="log-drawn" style={{ top: from * LINE_PX }}>
            {Array.from({ length: Math.max(0, until - from) }, (_, index) => {
              const number = lines.first + from + index;
              return (
                <div key={number} className={number === marked ? "log-line log-marked" : "log-line"}>
                  {isWhole && <span className="log-number number">{number}</span>}
                  <span>{lines.kept[from + index] ?? last}</span>
                </div>
              );
            })}
          </div>
        </div>
      )}
    </div>
  );
}
