// What can be done with a server now.
import { useState, type JSX } from "react";

import type { Server, State } from "../api/types";
import { go } from "../route";
import { useMayAct } from "../session/caller";
import { OnlyLooking } from "../session/OnlyLooking";
import { LaunchDialog } from "./LaunchDialog";
import { SimpleDialog } from "./SimpleDialog";
import { removeWish, stopWish } from "./wishes";

type Action = "launch" | "restart" | "stop" | "remove";

const POSSIBLE: Record<State, Action[]> = {
  stopped: ["launch", "remove"],
  failed: ["launch", "stop", "remove"],
  starting: ["restart", "stop"],
  ready: ["restart", "stop"],
  unready: ["restart", "stop"],
  stopping: [],
};

const NAMES: Record<Action, string> = {
  launch: "Launch …",
  restart: "Restart …",
  stop: "Stop …",
  remove: "Remove …",
};

export function ServerActions({ server }: { server: Server }): JSX.Element {
  const [action, setAction] = useState<Action | null>(null);
  const mayAct = useMayAct();
  const close = (): void => setAction(null);
  return (
    <>
      {!mayAct && <OnlyLooking />}
      {POSSIBLE[server.state].map((name) => (
        <button
          key={name}
          type="button"
          className={name === "launch" ? "primary" : name === "remove" ? "danger" : ""}
          disabled={!mayAct}
          onClick={() => setAction(name)}
        >
          {NAMES[name]}
        </button>
      ))}
      {(action === "launch" || action === "restart") && <LaunchDialog server={server} kind={action} onClose={close} />}
      {action === "stop" && (
        <SimpleDialog
          title={`Stop ${server.name}`}
          wish={stopWish(server.name)}
          confirmation={serves(server) ? `${server.name} serves now. Requests that run are given the profile's grace, then they are cut off.` : null}
          verb={`Stop ${server.name}`}
          said={`Stop of ${server.name} accepted`}
          onClose={close}
        >
          <p>
            It is asked to end, killed after its grace, swept, and proven gone: no process, no listener, no GPU memory, nothing
            in shared memory. {server.state === "starting" && "The launch under way is canceled."}
          </p>
        </SimpleDialog>
      )}
      {action === "remove" && (
        <SimpleDialog
          title={`Remove ${server.name}`}
          wish={removeWish(server.name)}
          confirmation={null}
          verb={`Remove ${server.name}`}
          said={`${server.name} removed`}
          onClose={close}
          onDone={() => go()}
        >
          <p>The server is taken off the list and its port is free again. Its launches and transitions stay.</p>
        </SimpleDialog>
      )}
    </>
  );
}

export function serves(server: Server): boolean {
  return server.state === "ready" || server.state === "unready";
}
