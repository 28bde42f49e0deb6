// Every server with what it is doing, and every node with its GPUs.
import { useMemo, useState, type JSX } from "react";

import type { Node, Server, State } from "../api/types";
import { fleet, readFleet } from "../live/fleet";
import { useStore } from "../live/store";
import { to } from "../route";
import { Empty } from "../ui/Empty";
import { Loading } from "../ui/Loaded";
import { Page } from "../ui/Page";
import { TroubleNote } from "../ui/TroubleNote";
import { many } from "../ui/words";
import { NodeCard } from "./NodeCard";
import { ServerRow } from "./ServerRow";
import { StateFilter } from "./StateFilter";
import "./Fleet.css";

export function FleetPage(): JSX.Element {
  const servers = useStore(fleet, (value) => value.servers);
  const nodes = useStore(fleet, (value) => value.nodes);
  const trouble = useStore(fleet, (value) => value.trouble);
  return (
    <Page title="Fleet" actions={<a href={to("place")}>Place a server</a>}>
      {servers && nodes ? (
        <>
          <Servers servers={servers} nodes={nodes} />
          <Nodes nodes={nodes} servers={servers} />
        </>
      ) : trouble ? (
        <TroubleNote trouble={trouble} onRetry={() => void readFleet()} />
      ) : (
        <Loading what="the fleet" />
      )}
    </Page>
  );
}

interface Props {
  servers: ReadonlyMap<string, Server>;
  nodes: ReadonlyMap<string, Node>;
}

function Servers({ servers, nodes }: Props): JSX.Element {
  const [state, setState] = useState<State | null>(null);
  const [text, setText] = useState("");
  const all = useMemo(() => [...servers.values()], [servers]);
  const wanted = text.trim().toLowerCase();
  const shown = all.filter(
    (server) =>
      (state === null || server.state === state) &&
      [server.name, server.node, server.profile].some((word) => word.includes(wanted)),
  );
  if (all.length === 0) {
    return (
      <Empty title="No server yet">
        {nodes.size === 0 ? (
          <p>First take a node in: POST /api/v1/nodes, as the README shows.</p>
        ) : (
          <p>
            <a href={to("place")}>Place one</a>: a profile on a node.
          </p>
        )}
      </Empty>
    );
  }
  return (
    <section className="stack" aria-labelledby="servers">
      <h2 id="servers" className="hidden-text">
        Servers
      </h2>
      <div className="fleet-tools">
        <StateFilter servers={all} chosen={state} onChoose={setState} />
        <input
          type="search"
          aria-label="Find by server, node or profile"
          placeholder="Find server, node, profile"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      </div>
      <p className="hidden-text" role="status">
        {many(shown.length, "server")} shown
      </p>
      {shown.length === 0 ? (
        <Empty title="No server is like that" />
      ) : (
        <ul className="servers">
          {shown.map((server) => (
            <ServerRow key={server.id} server={server} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Nodes({ nodes, servers }: Props): JSX.Element | null {
  const holders = useMemo(() => new Map([...servers.values()].map((server) => [server.name, server.state])), [servers]);
  if (nodes.size === 0) return servers.size === 0 ? null : <Empty title="No node" />;
  return (
    <section className="stack" aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      <ul className="nodes">
        {[...nodes.values()].map((node) => (
          <NodeCard key={node.id} node={node} states={holders} />
        ))}
      </ul>
    </section>
  );
}
