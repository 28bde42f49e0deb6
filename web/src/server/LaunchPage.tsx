// One launch of the past, or the present one: why it failed, its phases, its log.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import type { Launch } from "../api/types";
import { fleet } from "../live/fleet";
import { useResource } from "../live/resource";
import { useStore } from "../live/store";
import { to } from "../route";
import { Loaded } from "../ui/Loaded";
import { Note } from "../ui/Note";
import { Page } from "../ui/Page";
import { clock } from "../ui/words";
import { Cause } from "./Failure";
import { LaunchView } from "./LaunchView";
import { againWhileStarting } from "./stays";
import { WarnedBefore } from "./WarnedBefore";

export default function LaunchPage({ id }: { id: string }): JSX.Element {
  // As long as it is the newest of a server, what happens to that server happens to it.
  const current = useStore(fleet, (value) => [...(value.servers?.values() ?? [])].find((item) => item.launch?.id === id));
  const launch = useResource(
    `${id} ${current?.state_since_at ?? ""} ${current?.verdict?.verdict ?? ""}`,
    () => answerOf(api.GET("/api/v1/launches/{launch}", { params: { path: { launch: id } } })),
    { againAfterMs: againWhileStarting, keepAs: id },
  );
  const name = launch.value?.server;
  const server = useStore(fleet, (value) => (name ? value.servers?.get(name) : undefined));
  const title = launch.value ? `Launch ${launch.value.number} of ${launch.value.server}` : "Launch";
  return (
    <Page title={title}>
      <Loaded of={launch} what="the launch">
        {(value) => (
          <>
            <p className="small muted">
              <a href={to("servers", value.server)}>{value.server}</a> on {value.node}, profile version {value.profile_version},
              requested {clock(value.created_at)}
            </p>
            <Outcome launch={value} />
          </>
        )}
      </Loaded>
      {launch.value && <LaunchView launch={launch} server={server} />}
    </Page>
  );
}

function Outcome({ launch }: { launch: Launch }): JSX.Element | null {
  if (launch.diagnosis) {
    return (
      <Note tone="failure" title={`Failed: ${launch.diagnosis.summary}`}>
        <Cause diagnosis={launch.diagnosis} />
        {launch.preflight && <WarnedBefore checks={launch.preflight.checks} overridden={launch.preflight.overridden} />}
      </Note>
    );
  }
  if (launch.ready_at) {
    const end = launch.ended_at ? `, ended ${clock(launch.ended_at)}` : "";
    return <Note tone="success" title={`It became ready at ${clock(launch.ready_at)}${end}`} />;
  }
  return launch.ended_at ? <Note tone="calm" title={`It ended ${clock(launch.ended_at)} without becoming ready`} /> : null;
}
