// A picture that the service draws. It is read here, because it needs the token, and put into a shadow tree of its own.
import { useEffect, useRef, type JSX } from "react";

import { open } from "../api/client";
import { useResource } from "../live/resource";
import { Loaded } from "../ui/Loaded";

export function Plot({ path, title }: { path: string; title: string }): JSX.Element {
  const picture = useResource(path, async () => (await open(path)).text());
  return (
    <figure className="card stack tight plot">
      <figcaption>
        <strong>{title}</strong>
      </figcaption>
      <Loaded of={picture} what="the picture">
        {(text) => <Picture text={text} />}
      </Loaded>
    </figure>
  );
}

function Picture({ text }: { text: string }): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => draw(text, frame.current!), [text]);
  return <div className="picture" ref={frame} />;
}

/** The page's policy forbids inline styles, even to be read: the style becomes a sheet of the picture's shadow tree. */
function draw(text: string, frame: HTMLElement): void {
  let css = "";
  const bare = text.replace(/<style>([^]*?)<\/style>/g, (_, own: string) => ((css += own), ""));
  const picture = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${css} svg { width: 100%; height: auto; }`);
  const root = frame.shadowRoot ?? frame.attachShadow({ mode: "open" });
  root.adoptedStyleSheets = [sheet];
  root.replaceChildren(document.importNode(picture, true));
}
