// A launch or restart: first what its checks find, then what it interrupts, then the request.
import { useState, type JSX } from "react";

import type { Operation, Server } from "../api/types";
import { readServers } from "../live/fleet";
import { announce } from "../ui/announce";
import { Dialog } from "../ui/Dialog";
import { Loaded } from "../ui/Loaded";
import { TroubleNote } from "../ui/TroubleNote";
import { capital } from "../ui/words";
import { Confirmation } from "./Confirmation";
import { CurlNote } from "./CurlNote";
import { PreflightReport } from "./PreflightReport";
import { serves } from "./ServerActions";
import { usePreflight } from "./usePreflight";
import { useSending } from "./useSending";
import { VersionChoice } from "./VersionChoice";
import { launchWish, restartWish } from "./wishes";

interface Props {
  server: Server;
  kind: "launch" | "restart";
  onClose: () => void;
}

export function LaunchDialog({ server, kind, onClose }: Props): JSX.Element {
  const { name } = server;
  const [version, setVersion] = useState<number | null>(null);
  const [isConfirmed, setConfirmed] = useState(false);
  const checked = usePreflight({ server: name, ...(version !== null && { version }) });
  const isInterrupting = kind === "restart" && serves(server);
  const body = { override: checked.overridden, ...(version !== null && { version }) };
  const wish = kind === "launch" ? launchWish(name, body) : restartWish(name, body);
  const sending = useSending<Operation>(wish, () => {
    announce(`${capital(kind)} of ${name} accepted`);
    void readServers([server.id]);
    onClose();
  });
  const isReady = checked.isClear && (isConfirmed || !isInterrupting) && !sending.isUnderWay;
  return (
    <Dialog title={`${capital(kind)} ${name}`} onClose={onClose}>
      <VersionChoice server={server} chosen={version} onChoose={setVersion} />
      <Loaded of={checked.report} what="what its launch would meet">
        {(preflight) => (
          <PreflightReport preflight={preflight} overridden={checked.overridden} onOverride={checked.override} />
        )}
      </Loaded>
      {isInterrupting && (
        <Confirmation
          what={`${name} serves now. It is stopped with proof, then launched again; until it is ready nobody is answered.`}
          isGiven={isConfirmed}
          onChange={setConfirmed}
        />
      )}
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
      <CurlNote wish={wish} requestKey={sending.key} />
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          Leave it
        </button>
        <button type="button" className="primary" disabled={!isReady} onClick={() => void sending.go()}>
          {checked.overridden.length > 0 ? `${capital(kind)} ${name} all the same` : `${capital(kind)} ${name}`}
        </button>
      </div>
    </Dialog>
  );
}
