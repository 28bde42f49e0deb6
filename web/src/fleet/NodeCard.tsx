// A node: whether it is heard, its GPUs, and what keeps it from being used.
import { memo, type JSX } from "react";

import type { Node, State } from "../api/types";
import { to } from "../route";
import { Age } from "../ui/Age";
import { plain } from "../ui/words";
import { GpuGrid } from "./GpuGrid";
import { gpusNow } from "./gpus";

interface Props {
  node: Node;
  states: ReadonlyMap<string, State>;
}

export const NodeCard = memo(function NodeCard({ node, states }: Props): JSX.Element {
  const { contact, inventory } = node;
  const now = gpusNow(node);
  const isLost = contact.state !== "ok";
  return (
    <li className="card stack tight node-card">
      <div className="row spread">
        <h3>
          <a href={to("nodes", node.name)}>{node.name}</a>
        </h3>
        <span className={`small ${isLost ? "flag flag-lost" : "muted"}`}>
          {contact.state === "ok" && "in contact"}
          {contact.state === "lost" && (contact.code ? plain(contact.code) : "contact lost")}
          {contact.state === "unknown" && "not reached yet"}
          {" · "}
          <Age at={contact.since_at} suffix="" isCoarse />
        </span>
      </div>
      {inventory && now ? (
        <>
          <GpuGrid gpus={now.gpus} states={states} />
          {inventory.gpu_error && <p className="small flag flag-lost">{inventory.gpu_error}</p>}
          <p className="small muted">
            {now.gpus[0] && <>{now.gpus[0].name}, GiB used, </>}
            looked at <Age at={now.at} isCoarse />
          </p>
        </>
      ) : (
        <p className="small muted">{contact.detail ?? "Its GPUs are not known yet."}</p>
      )}
      {node.offered_host_key && <p className="small flag flag-lost">its host key waits to be confirmed</p>}
      {node.is_draining && <p className="small flag">draining: takes no new launch</p>}
    </li>
  );
});
