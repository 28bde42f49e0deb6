// One server: what it is doing and how that is known, or its history.
import { useEffect, useRef, type JSX } from "react";

import { api, answerOf } from "../api/client";
import type { Server } from "../api/types";
import { ServerActions } from "../acting/ServerActions";
import { ServerHistory } from "../history/ServerHistory";
import { fleet, readFleet } from "../live/fleet";
import { useResource } from "../live/resource";
import { useStore } from "../live/store";
import { to } from "../route";
import { Age } from "../ui/Age";
import { announce } from "../ui/announce";
import { Empty } from "../ui/Empty";
import { Loading } from "../ui/Loaded";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { StateBadge } from "../ui/StateBadge";
import { TroubleNote } from "../ui/TroubleNote";
import { Tabs } from "../ui/Tabs";
import { plain } from "../ui/words";
import { LaunchView } from "./LaunchView";
import { Now } from "./Now";
import { againWhileStarting } from "./stays";

interface Props {
  name: string;
  tab: "now" | "history";
}

export default function ServerPage({ name, tab }: Props): JSX.Element {
  const server = useStore(fleet, (value) => value.servers?.get(name));
  const isRead = useStore(fleet, (value) => value.servers !== null);
  const trouble = useStore(fleet, (value) => value.trouble);
  if (server) return <Known server={server} tab={tab} />;
  return (
    <Page title={name}>
      {isRead ? (
        <Empty title={`There is no server ${name}`}>
          <a href={to()}>To the fleet</a>
        </Empty>
      ) : trouble ? (
        <TroubleNote trouble={trouble} onRetry={() => void readFleet()} />
      ) : (
        <Loading what="the server" />
      )}
    </Page>
  );
}

function Known({ server, tab }: { server: Server; tab: Props["tab"] }): JSX.Element {
  useSaying(server);
  return (
    <Page
      title={server.name}
      beside={
        <>
          <StateBadge state={server.state} isBig />
          <span className="muted">
            for <Age at={server.state_since_at} suffix="" />
          </span>
        </>
      }
      actions={<ServerActions server={server} />}
    >
      <p className="row small muted">
        <span>
          <a href={to("profiles", server.profile)}>{server.profile}</a> version {server.profile_version}
        </span>
        <span>
          on <a href={to("nodes", server.node)}>{server.node}</a>, port {server.port}
        </span>
        {server.operation && (
          <span>
            {plain(server.operation.kind)} under way: {plain(server.operation.step)}
          </span>
        )}
      </p>
      <ContactLost server={server} />
      <Tabs
        label="Parts of the server"
        tabs={[
          { name: "Now", href: to("servers", server.name), isHere: tab === "now" },
          { name: "History", href: to("servers", server.name, "history"), isHere: tab === "history" },
        ]}
      />
      {tab === "history" ? <ServerHistory server={server} /> : <Present server={server} />}
    </Page>
  );
}

function Present({ server }: { server: Server }): JSX.Element {
  const id = server.launch?.id ?? null;
  // A launch is read again when its server has changed: the state, or what is thought of it.
  const key = id && `${id} ${server.state_since_at} ${server.verdict?.verdict ?? ""}`;
  const launch = useResource(
    key,
    () => answerOf(api.GET("/api/v1/launches/{launch}", { params: { path: { launch: id! } } })),
    { againAfterMs: againWhileStarting, keepAs: id },
  );
  return (
    <>
      <Now server={server} launch={launch.value} />
      {id === null ? (
        <Empty title="It was never launched">
          <p>A launch is checked first, in seconds and without touching a GPU.</p>
        </Empty>
      ) : (
        <LaunchView launch={launch} server={server} />
      )}
    </>
  );
}

/** Says what matters as it changes, to who listens instead of looking: not the progress, which never rests. */
function useSaying(server: Server): void {
  const verdict = server.state === "starting" ? server.verdict?.verdict : undefined;
  const said = `${server.name} is ${server.state}${verdict ? `, ${plain(verdict)}` : ""}`;
  const before = useRef(said);
  useEffect(() => {
    if (before.current !== said) announce(said);
    before.current = said;
  }, [said]);
}

function ContactLost({ server }: { server: Server }): JSX.Element | null {
  if (server.contact.state !== "lost") return null;
  return (
    <Note tone="warning" title={`Node ${server.node} is not heard`}>
      <p>
        The state is the last that was known{server.observed_at && <>, of <Age at={server.observed_at} /></>}. Nothing is
        done on old facts. {server.contact.detail}
      </p>
    </Note>
  );
}
