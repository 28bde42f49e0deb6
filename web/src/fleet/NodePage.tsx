// A node: whether it is heard, its GPUs and holders, its engines and disks, and what runs there that is not Vigil's.
import type { JSX, ReactNode } from "react";

import type { Node } from "../api/types";
import { fleet, readFleet } from "../live/fleet";
import { useStore } from "../live/store";
import { to } from "../route";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { Loading } from "../ui/Loaded";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { TroubleNote } from "../ui/TroubleNote";
import { gib, plain } from "../ui/words";
import { GpuGrid } from "./GpuGrid";
import { gpusNow } from "./gpus";
import { LookAgain } from "./LookAgain";
import { ServerRow } from "./ServerRow";
import "./Fleet.css";

export default function NodePage({ name }: { name: string }): JSX.Element {
  const nodes = useStore(fleet, (value) => value.nodes);
  const trouble = useStore(fleet, (value) => value.trouble);
  const node = nodes?.get(name);
  return (
    <Page title={name} actions={node && <LookAgain node={node} />}>
      {node ? (
        <Known node={node} />
      ) : nodes ? (
        <Empty title={`There is no node ${name}`}>
          <a href={to()}>To the fleet</a>
        </Empty>
      ) : trouble ? (
        <TroubleNote trouble={trouble} onRetry={() => void readFleet()} />
      ) : (
        <Loading what="the node" />
      )}
    </Page>
  );
}

function Known({ node }: { node: Node }): JSX.Element {
  const servers = useStore(fleet, (value) => value.servers);
  const here = [...(servers?.values() ?? [])].filter((server) => server.node === node.name);
  const states = new Map(here.map((server) => [server.name, server.state]));
  const { inventory } = node;
  const now = gpusNow(node);
  return (
    <>
      <ContactNote node={node} />
      {inventory && now && (
        <section className="card stack" aria-labelledby="gpus">
          <h2 id="gpus">GPUs</h2>
          {inventory.gpu_error && <Note tone="failure" title={inventory.gpu_error} />}
          <GpuGrid gpus={now.gpus} states={states} />
          <p className="small muted">
            Memory and holders of <Age at={now.at} />
          </p>
        </section>
      )}
      <section className="stack" aria-labelledby="here">
        <h2 id="here">Servers</h2>
        {here.length === 0 ? (
          <Empty title="No server here" />
        ) : (
          <ul className="servers">
            {here.map((server) => (
              <ServerRow key={server.id} server={server} />
            ))}
          </ul>
        )}
      </section>
      {inventory && inventory.found_engines && inventory.found_engines.length > 0 && <Found engines={inventory.found_engines} />}
      {inventory && <Facts node={node} inventory={inventory} />}
    </>
  );
}

function ContactNote({ node: { contact, offered_host_key: offered, is_draining: isDraining } }: { node: Node }): JSX.Element {
  return (
    <>
      {contact.state === "ok" ? (
        <p className="muted">
          In contact for <Age at={contact.since_at} suffix="" />
          {contact.heard_at && (
            <>
              , last heard <Age at={contact.heard_at} />
            </>
          )}
        </p>
      ) : (
        <Note tone="warning" title={contact.code ? `Not heard: ${plain(contact.code)}` : "Not heard"}>
          <p>{contact.detail}</p>
          <p>
            For <Age at={contact.since_at} suffix="" />. Its servers keep their last known state.
          </p>
        </Note>
      )}
      {offered && (
        <Note tone="warning" title="A host key waits to be confirmed">
          <p>
            {offered.algorithm} <code>{offered.fingerprint}</code>. Compare it with the node's own, then POST …/trust.
          </p>
        </Note>
      )}
      {isDraining && <Note tone="calm" title="Draining: it takes no new launch" />}
    </>
  );
}

type Inventory = NonNullable<Node["inventory"]>;

function Found({ engines }: { engines: NonNullable<Inventory["found_engines"]> }): JSX.Element {
  return (
    <section className="card stack tight" aria-labelledby="found">
      <h2 id="found">Engines that Vigil did not launch</h2>
      <ul className="stack tight">
        {engines.map((engine) => (
          <li key={engine.pid}>
            process {engine.pid}
            {engine.user && ` of ${engine.user}`}, port {engine.port ?? "unknown"}, {engine.model_path}, since{" "}
            <Age at={engine.started_at} />
            <p className="small muted">
              POST /api/v1/servers/adopt with its pid takes it over while it serves.
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Facts({ node, inventory }: { node: Node; inventory: Inventory }): JSX.Element {
  return (
    <section className="card stack tight" aria-labelledby="machine">
      <h2 id="machine">Machine</h2>
      <dl className="facts small">
        <Fact name="Address">
          {node.user}@{node.address}, port {node.port}
        </Fact>
        <Fact name="Host">
          {inventory.hostname}, Linux {inventory.kernel}, driver {inventory.driver_version ?? "none"}
        </Fact>
        <Fact name="Memory">
          {gib(inventory.memory_available_mib)} of {gib(inventory.memory_total_mib)} GiB free, {inventory.cpu_count} CPUs
        </Fact>
        <Fact name="Shared memory">
          {gib(inventory.shm_free_mib)} of {gib(inventory.shm_total_mib)} GiB free
        </Fact>
        {inventory.disks.map((disk) => (
          <Fact key={disk.path} name={`Disk ${disk.path}`}>
            {gib(disk.free_mib)} of {gib(disk.total_mib)} GiB free
          </Fact>
        ))}
        {inventory.engines.map((engine) => (
          <Fact key={engine.python} name={engine.sglang_version ? `SGLang ${engine.sglang_version}` : "No SGLang"}>
            <code>{engine.python}</code> {engine.error}
          </Fact>
        ))}
        <Fact name="Looked at">
          <Age at={inventory.at} />
        </Fact>
      </dl>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
