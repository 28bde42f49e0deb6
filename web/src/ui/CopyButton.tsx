// Copies a text, and says that it did.
import { useState, type JSX } from "react";

import { announce } from "./announce";

export function CopyButton({ text, what }: { text: string; what: string }): JSX.Element {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await write(text);
    setCopied(true);
    announce(`${what} copied`);
    setTimeout(() => setCopied(false), 2_000);
  };
  return (
    <button type="button" className="small" onClick={() => void copy()} aria-label={`Copy ${what}`}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}

/** Without TLS, and not on loopback, a browser has no clipboard for a page: then the old way. */
async function write(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
