// The accept length of a launch over time, against the floor that it should reach.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import { readAll } from "../api/pages";
import type { AcceptanceSample, Server } from "../api/types";
import { useResource } from "../live/resource";
import { Empty } from "../ui/Empty";
import { LineChart } from "../ui/LineChart";
import { Loaded } from "../ui/Loaded";
import { plain } from "../ui/words";

interface Props {
  launchId: string;
  acceptance: NonNullable<Server["acceptance"]>;
}

export function AcceptanceChart({ launchId, acceptance }: Props): JSX.Element {
  const path = { launch: launchId };
  const samples = useResource(
    `acceptance ${launchId} ${acceptance.newest?.at ?? ""}`,
    () => readAll((query) => answerOf(api.GET("/api/v1/launches/{launch}/acceptance", { params: { path, query } }))),
    { keepAs: launchId },
  );
  return (
    <section className="card stack" aria-labelledby="acceptance">
      <h2 id="acceptance">Acceptance over time: {plain(acceptance.judgement)}</h2>
      <Loaded of={samples} what="the acceptance">
        {(value) => (value.length === 0 ? <Idle /> : <Chart samples={value} floor={acceptance.floor} />)}
      </Loaded>
    </section>
  );
}

function Idle(): JSX.Element {
  return <Empty title="Nothing was drafted yet: idle is unknown, never bad" />;
}

function Chart({ samples, floor }: { samples: AcceptanceSample[]; floor: number | null }): JSX.Element {
  const points = samples.map((sample) => ({ at: new Date(sample.at).getTime(), value: sample.accept_length })).reverse();
  const values = samples.map((sample) => sample.accept_length);
  const said = `Accept length of ${samples.length} samples, ${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}`;
  return (
    <LineChart
      label={`${said}${floor === null ? "" : `; it should reach ${floor.toFixed(2)}`}`}
      unit="tokens per verify step"
      points={points}
      line={floor === null ? null : { value: floor, name: `floor ${floor.toFixed(2)}` }}
      least={1}
    />
  );
}
