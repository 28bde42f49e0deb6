// Every change with its reason, who made it, and the evidence.
import type { JSX } from "react";

import type { Transition } from "../api/types";
import { Empty } from "../ui/Empty";
import { clock, plain } from "../ui/words";

export function TransitionList({ transitions }: { transitions: readonly Transition[] }): JSX.Element {
  if (transitions.length === 0) return <Empty title="Nothing has happened yet" />;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Transitions">
      <table>
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">From → to</th>
            <th scope="col">Reason</th>
            <th scope="col">Who</th>
            <th scope="col">Message and evidence</th>
          </tr>
        </thead>
        <tbody>
          {transitions.map((row) => (
            <tr key={row.id}>
              <td className="number">
                <time dateTime={row.at}>{clock(row.at)}</time>
              </td>
              <td>{row.before === row.after ? plain(row.after) : `${plain(row.before)} → ${plain(row.after)}`}</td>
              <td>{plain(row.reason)}</td>
              <td>{row.actor}</td>
              <td>
                {row.message}
                {Object.keys(row.evidence).length > 0 && (
                  <details>
                    <summary>evidence</summary>
                    <pre>{JSON.stringify(row.evidence, null, 1)}</pre>
                  </details>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
