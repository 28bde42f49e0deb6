// One attempt to bring a server up: its phases in time, and the log beside them.
import type { JSX } from "react";

import type { Launch, Server } from "../api/types";
import type { Resource } from "../live/resource";
import { Loaded } from "../ui/Loaded";
import { LaunchFacts } from "./LaunchFacts";
import { LogView } from "../log/LogView";
import { Timeline } from "./Timeline";
import { useUsual } from "./usual";
import "./LaunchView.css";

interface Props {
  launch: Resource<Launch>;
  server: Server | undefined;
}

export function LaunchView({ launch, server }: Props): JSX.Element {
  const usual = useUsual(server?.profile ?? null, launch.value);
  return (
    <Loaded of={launch} what="the launch">
      {(value) => (
        <div className="launch">
          <section className="card stack launch-phases" aria-labelledby="phases">
            <h2 id="phases">Launch {value.number}: where the time goes</h2>
            <Timeline launch={value} usual={usual} eta={server?.launch?.id === value.id ? server.eta : null} />
            <LaunchFacts launch={value} />
          </section>
          <LogView key={value.id} launchId={value.id} />
        </div>
      )}
    </Loaded>
  );
}
