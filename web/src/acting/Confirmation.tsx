// Something that interrupts traffic is ticked before it can be done.
import type { JSX } from "react";

import { Note } from "../ui/Note";

interface Props {
  what: string;
  isGiven: boolean;
  onChange: (isGiven: boolean) => void;
}

export function Confirmation({ what, isGiven, onChange }: Props): JSX.Element {
  return (
    <Note tone="warning" title="This interrupts traffic">
      <p>{what}</p>
      <label>
        <input type="checkbox" checked={isGiven} onChange={(event) => onChange(event.target.checked)} />I know, and want it
      </label>
    </Note>
  );
}
