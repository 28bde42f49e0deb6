// The bar: where one is, and whether what is shown is live.
import type { JSX } from "react";

import { fleet } from "../live/fleet";
import { link } from "../live/link";
import { useStore } from "../live/store";
import { to, type Route } from "../route";
import { caller } from "../session/caller";
import { session, token } from "../session/token";

const PLACES: { name: string; href: string; views: Route["view"][] }[] = [
  { name: "Fleet", href: to(), views: ["fleet", "server", "launch", "node", "place"] },
  { name: "Profiles", href: to("profiles"), views: ["profiles", "profile", "newProfile"] },
  { name: "Benchmarks", href: to("benchmarks"), views: ["benchmarks", "run", "comparison", "benchmarkHistory"] },
];

export function Bar({ route }: { route: Route }): JSX.Element {
  const hasToken = useStore(session, (value) => value.value !== null);
  const who = useStore(caller, (value) => value);
  return (
    <header className="bar">
      <a className="brand" href={to()}>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <circle cx="16" cy="16" r="12" fill="none" stroke="currentColor" strokeWidth="4" />
          <circle cx="16" cy="16" r="5" fill="currentColor" />
        </svg>
        Vigil
      </a>
      <nav aria-label="Views">
        {PLACES.map(({ name, href, views }) => (
          <a key={name} href={href} aria-current={views.includes(route.view) ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <div className="bar-end">
        <LinkState />
        {hasToken && who && (
          <span className="small muted bar-caller">
            {who.actor}, {who.role}
          </span>
        )}
        {hasToken && (
          <button type="button" className="small" onClick={() => (token.forget(), location.reload())}>
            Forget token
          </button>
        )}
      </div>
    </header>
  );
}

function LinkState(): JSX.Element {
  const state = useStore(link, (value) => value);
  const isSilent = useStore(fleet, (value) => value.trouble !== null);
  const said = isSilent ? "silent" : { opening: "connecting", live: "live", lost: "every 2 s" }[state];
  return <span className={`link-state link-${isSilent ? "lost" : state}`}>{said}</span>;
}
