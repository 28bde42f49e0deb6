// The same as a curl line, for scripts and for those who want to see what is sent.
import type { JSX } from "react";

import { CopyButton } from "../ui/CopyButton";
import { curlOf, type Wish } from "./request";
import "./CurlNote.css";

export function CurlNote({ wish, requestKey }: { wish: Wish; requestKey: string }): JSX.Element {
  const line = curlOf(wish, requestKey);
  return (
    <details className="curl">
      <summary className="small">The same with curl</summary>
      <div className="curl-line">
        <pre tabIndex={0}>{line}</pre>
        <CopyButton text={line} what="the curl line" />
      </div>
    </details>
  );
}
