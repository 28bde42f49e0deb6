// A dialog of the browser's own: it keeps the focus, closes with Escape, and gives the focus back.
import { useEffect, useId, useRef, type JSX, type ReactNode } from "react";

import "./Dialog.css";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, onClose, children }: Props): JSX.Element {
  const frame = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = frame.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={frame}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="stack">
        <header className="row spread">
          <h2 id={titleId}>{title}</h2>
          <button type="button" className="plain" onClick={onClose}>
            Close
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
