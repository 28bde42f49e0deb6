// A change that needs no check before it: what it does, a confirmation where it interrupts traffic, the curl line.
import { useState, type JSX, type ReactNode } from "react";

import { readFleet } from "../live/fleet";
import { announce } from "../ui/announce";
import { Dialog } from "../ui/Dialog";
import { TroubleNote } from "../ui/TroubleNote";
import { Confirmation } from "./Confirmation";
import { CurlNote } from "./CurlNote";
import type { Wish } from "./request";
import { useSending } from "./useSending";

interface Props {
  title: string;
  wish: Wish;
  /** What is interrupted; null where nothing is. */
  confirmation: string | null;
  verb: string;
  said: string;
  onClose: () => void;
  onDone?: () => void;
  children: ReactNode;
}

export function SimpleDialog({ title, wish, confirmation, verb, said, onClose, onDone, children }: Props): JSX.Element {
  // What is interrupted may come only while the dialog is open: nobody has confirmed it then.
  const [isConfirmed, setConfirmed] = useState(false);
  const isClear = isConfirmed || confirmation === null;
  const sending = useSending(wish, () => {
    announce(said);
    void readFleet();
    onClose();
    onDone?.();
  });
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {confirmation !== null && <Confirmation what={confirmation} isGiven={isConfirmed} onChange={setConfirmed} />}
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
      <CurlNote wish={wish} requestKey={sending.key} />
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          Leave it
        </button>
        <button type="button" className="danger" disabled={!isClear || sending.isUnderWay} onClick={() => void sending.go()}>
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
