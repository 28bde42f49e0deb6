// Parts of a view, each with an address of its own.
import type { JSX } from "react";

import "./Tabs.css";

interface Props {
  label: string;
  tabs: { name: string; href: string; isHere: boolean }[];
}

export function Tabs({ label, tabs }: Props): JSX.Element {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ name, href, isHere }) => (
        <a key={name} href={href} aria-current={isHere ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}
