// Offers the newest version of a server's profile, where it is newer than the server's own.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import type { Server } from "../api/types";
import { useResource } from "../live/resource";

interface Props {
  server: Server;
  chosen: number | null;
  onChoose: (version: number | null) => void;
}

export function VersionChoice({ server, chosen, onChoose }: Props): JSX.Element | null {
  const params = { path: { profile: server.profile } };
  const profile = useResource(server.profile, () => answerOf(api.GET("/api/v1/profiles/{profile}", { params })));
  const newest = profile.value?.version;
  if (newest === undefined || newest === server.profile_version) return null;
  return (
    <label>
      <input
        type="checkbox"
        checked={chosen === newest}
        onChange={(event) => onChoose(event.target.checked ? newest : null)}
      />
      With version {newest} of {server.profile}; it has version {server.profile_version} now
    </label>
  );
}
