// What a server went through: its launches, where their time went, its speculation, every transition.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import type { Server } from "../api/types";
import { useResource } from "../live/resource";
import { Loaded } from "../ui/Loaded";
import { AcceptanceChart } from "./AcceptanceChart";
import { LaunchTable } from "./LaunchTable";
import { StartBars } from "./StartBars";
import { TransitionList } from "./TransitionList";

export function ServerHistory({ server }: { server: Server }): JSX.Element {
  // What happens to the server makes its history longer: then it is read again.
  const turn = `${server.id} ${server.state} ${server.state_since_at} ${server.verdict?.verdict ?? ""}`;
  const path = { server: server.name };
  const launches = useResource(
    `launches ${turn}`,
    () => answerOf(api.GET("/api/v1/servers/{server}/launches", { params: { path, query: { limit: 50 } } })),
    { keepAs: `launches ${server.id}` },
  );
  const transitions = useResource(
    `transitions ${turn}`,
    () => answerOf(api.GET("/api/v1/transitions", { params: { query: { server: server.name, limit: 100 } } })),
    { keepAs: `transitions ${server.id}` },
  );
  const starts = useResource(
    `starts ${turn}`,
    () => answerOf(api.GET("/api/v1/profiles/{profile}/startup-history", { params: { path: { profile: server.profile } } })),
    { keepAs: `starts ${server.id}` },
  );
  return (
    <>
      <section className="card stack" aria-labelledby="starts">
        <h2 id="starts">Start-up times of {server.profile}</h2>
        <Loaded of={starts} what="the start-up times">
          {(value) => <StartBars history={value} />}
        </Loaded>
      </section>
      <section className="card stack" aria-labelledby="launches">
        <h2 id="launches">Launches</h2>
        <Loaded of={launches} what="the launches">
          {(page) => <LaunchTable launches={page.items} />}
        </Loaded>
      </section>
      {server.launch && server.acceptance && <AcceptanceChart launchId={server.launch.id} acceptance={server.acceptance} />}
      <section className="card stack" aria-labelledby="transitions">
        <h2 id="transitions">Transitions</h2>
        <Loaded of={transitions} what="the transitions">
          {(page) => <TransitionList transitions={page.items} />}
        </Loaded>
      </section>
    </>
  );
}
