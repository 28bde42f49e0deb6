// What was executed, where, and what its end left behind.
import type { JSX } from "react";

import type { Launch } from "../api/types";
import { CopyButton } from "../ui/CopyButton";
import { clock, plain } from "../ui/words";

export function LaunchFacts({ launch }: { launch: Launch }): JSX.Element {
  return (
    <div className="stack tight">
      <details>
        <summary className="small">What was executed</summary>
        <div className="stack tight launch-facts">
          <pre className="scroll-x" tabIndex={0}>
            {launch.argv.join(" ")}
          </pre>
          <p>
            <CopyButton text={launch.argv.join(" ")} what="the command" />
          </p>
          <dl className="facts small">
            <div>
              <dt>Engine</dt>
              <dd>{launch.engine_version ?? "not told"}</dd>
            </div>
            <div>
              <dt>GPUs</dt>
              <dd>{launch.gpus.map((gpu) => gpu.index).join(", ") || "none"}</dd>
            </div>
            <div>
              <dt>Process</dt>
              <dd>
                {launch.pid ?? "none"}
                {launch.launcher && `, by ${plain(launch.launcher)}`}
              </dd>
            </div>
            <div>
              <dt>Requested</dt>
              <dd>{clock(launch.created_at)}</dd>
            </div>
            {launch.exit_code !== null && (
              <div>
                <dt>Exit code</dt>
                <dd>{launch.exit_code}</dd>
              </div>
            )}
          </dl>
        </div>
      </details>
      {launch.hang_evidence && <Evidence title="Kept when it was suspected hung" value={launch.hang_evidence} />}
      {launch.leftovers && <Evidence title="The proof of its end" value={launch.leftovers} />}
    </div>
  );
}

function Evidence({ title, value }: { title: string; value: Record<string, unknown> }): JSX.Element {
  return (
    <details>
      <summary className="small">{title}</summary>
      <dl className="stack tight">
        {Object.entries(value).map(([name, item]) => (
          <div key={name}>
            <dt className="small muted">{plain(name)}</dt>
            <dd>
              <pre className="scroll-x" tabIndex={0}>
                {typeof item === "string" ? item : JSON.stringify(item, null, 1)}
              </pre>
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
