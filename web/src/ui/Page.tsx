// The frame of a view: its heading takes the focus when the view is entered, and names the tab.
import { useEffect, useRef, type JSX, type ReactNode } from "react";

interface Props {
  title: string;
  /** Beside the heading. */
  beside?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

let isFirst = true;

export function Page({ title, beside, actions, children }: Props): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Vigil`;
    if (!isFirst) heading.current?.focus();
    isFirst = false;
  }, [title]);
  return (
    <main id="main" className="stack page">
      <header className="row spread">
        <div className="row page-title">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {beside}
        </div>
        {actions && <div className="row">{actions}</div>}
      </header>
      {children}
    </main>
  );
}
