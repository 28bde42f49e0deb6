// The answer to "what is it doing, and how is that known": ready and failed cannot be mistaken.
import type { JSX } from "react";

import type { Launch, Server } from "../api/types";
import { Note } from "../ui/Note";
import { capital, plain } from "../ui/words";
import { Acceptance } from "./Acceptance";
import { Failure } from "./Failure";
import { FindingNote } from "./FindingNote";
import { StartNow } from "./StartNow";
import { VerdictLine } from "./VerdictLine";

interface Props {
  server: Server;
  launch: Launch | undefined;
}

export function Now({ server, launch }: Props): JSX.Element {
  return (
    <section className="stack" aria-label="What it is doing">
      <Headline server={server} launch={launch} />
      {server.findings.map((finding) => (
        <FindingNote key={finding.id} finding={finding} />
      ))}
    </section>
  );
}

function Headline({ server, launch }: Props): JSX.Element {
  switch (server.state) {
    case "starting":
      return <StartNow server={server} />;
    case "failed":
      return <Failure server={server} launch={launch} />;
    case "ready":
      return (
        <Note tone="success" title="Ready: it serves">
          <p>{server.message}</p>
          {server.verdict && <VerdictLine verdict={server.verdict} />}
          {server.acceptance && <Acceptance acceptance={server.acceptance} />}
        </Note>
      );
    case "unready":
      return (
        <Note tone="warning" title="Unready: its process lives, and it does not answer">
          <p>{server.message}</p>
          {server.verdict && <VerdictLine verdict={server.verdict} />}
        </Note>
      );
    case "stopping":
    case "stopped":
      return (
        <Note tone="calm" title={capital(server.state)}>
          <p>{server.message ?? (server.reason ? plain(server.reason) : "Nothing runs.")}</p>
        </Note>
      );
  }
}
