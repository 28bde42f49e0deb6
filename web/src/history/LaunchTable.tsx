// The launches of a server, newest first, with how each ended.
import type { JSX } from "react";

import type { Launch } from "../api/types";
import { to } from "../route";
import { Empty } from "../ui/Empty";
import { clock, phaseName, seconds, secondsBetween } from "../ui/words";

export function LaunchTable({ launches }: { launches: readonly Launch[] }): JSX.Element {
  if (launches.length === 0) return <Empty title="It was never launched" />;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Launches">
      <table>
        <thead>
          <tr>
            <th scope="col">Launch</th>
            <th scope="col">Requested</th>
            <th scope="col">Profile version</th>
            <th scope="col">Engine</th>
            <th scope="col">Ready after</th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          {launches.map((launch) => (
            <tr key={launch.id}>
              <td>
                <a href={to("launches", launch.id)}>Launch {launch.number}</a>
              </td>
              <td className="number">{clock(launch.created_at)}</td>
              <td className="number">{launch.profile_version}</td>
              <td>{launch.engine_version ?? "–"}</td>
              <td className="number">{launch.ready_at ? seconds(secondsBetween(launch.created_at, launch.ready_at)) : "–"}</td>
              <td>{outcome(launch)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function outcome(launch: Launch): string {
  if (launch.diagnosis) return `failed: ${launch.diagnosis.summary}`;
  if (launch.ended_at) return `ended ${clock(launch.ended_at)}`;
  if (launch.ready_at) return "serves";
  return launch.phase ? phaseName(launch.phase).toLowerCase() : "begins";
}
