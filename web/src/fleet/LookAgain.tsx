// Has a node looked at now, instead of at its next turn.
import type { JSX } from "react";

import type { Node } from "../api/types";
import { useSending } from "../acting/useSending";
import { readNodes } from "../live/fleet";
import { useMayAct } from "../session/caller";
import { TroubleNote } from "../ui/TroubleNote";

export function LookAgain({ node }: { node: Node }): JSX.Element {
  const path = `/nodes/${encodeURIComponent(node.name)}/refresh`;
  const sending = useSending({ method: "POST", path }, () => void readNodes());
  const mayAct = useMayAct();
  return (
    <>
      <button type="button" disabled={sending.isUnderWay || !mayAct} onClick={() => void sending.go()}>
        {sending.isUnderWay ? "Looking …" : "Look again now"}
      </button>
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
    </>
  );
}
