// One server in the list: what it is, what it does now, and since when.
import { memo, type JSX } from "react";

import type { Server } from "../api/types";
import { to } from "../route";
import { Age } from "../ui/Age";
import { StateBadge } from "../ui/StateBadge";
import { Doing } from "./Doing";

export const ServerRow = memo(function ServerRow({ server }: { server: Server }): JSX.Element {
  return (
    <li className={`server-row edge-${server.state}`}>
      <span className="server-state">
        <StateBadge state={server.state} />
      </span>
      <span className="server-name">
        <a href={to("servers", server.name)}>{server.name}</a>
        <span className="muted small">
          {server.profile} v{server.profile_version} on {server.node}
        </span>
      </span>
      <span className="server-doing">
        <Doing server={server} />
      </span>
      <span className="server-age muted small">
        <Age at={server.state_since_at} suffix="" isCoarse />
      </span>
    </li>
  );
});
