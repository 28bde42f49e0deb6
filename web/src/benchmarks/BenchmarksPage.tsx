// The runs of benchmarks, newest first; start one; look at a profile's history.
import { useState, type JSX } from "react";

import { answerOf, api } from "../api/client";
import { readAll } from "../api/pages";
import type { Run } from "../api/types";
import { useResource } from "../live/resource";
import { go, to } from "../route";
import { Empty } from "../ui/Empty";
import { Loaded } from "../ui/Loaded";
import { Page } from "../ui/Page";
import { RunTable } from "./RunTable";
import { StartRun } from "./StartRun";

const WATCH_EVERY_MS = 2_000;

export default function BenchmarksPage(): JSX.Element {
  const [profile, setProfile] = useState("");
  const query = { limit: 50, ...(profile && { profile }) };
  const runs = useResource(
    `runs ${profile}`,
    () => answerOf(api.GET("/api/v1/benchmark-runs", { params: { query } })),
    { againAfterMs: () => WATCH_EVERY_MS },
  );
  const profiles = useResource("profiles", () =>
    readAll((page) => answerOf(api.GET("/api/v1/profiles", { params: { query: page } }))),
  );
  return (
    <Page title="Benchmarks">
      <StartRun />
      <section className="stack" aria-labelledby="runs">
        <div className="row spread">
          <h2 id="runs">Runs</h2>
          <div className="row">
            <label className="row">
              Profile
              <select value={profile} onChange={(event) => setProfile(event.target.value)}>
                <option value="">all</option>
                {profiles.value?.map((item) => (
                  <option key={item.id}>{item.name}</option>
                ))}
              </select>
            </label>
            {profile && <a href={to("benchmarks", "history", profile)}>History of {profile}</a>}
          </div>
        </div>
        <Loaded of={runs} what="the runs">
          {(page) => <Runs runs={page.items} />}
        </Loaded>
      </section>
    </Page>
  );
}

function Runs({ runs }: { runs: Run[] }): JSX.Element {
  const [chosen, setChosen] = useState<string[]>([]);
  const [baseline, candidate] = [...chosen].sort((one, other) => age(runs, other) - age(runs, one));
  if (runs.length === 0) {
    return (
      <Empty title="No run yet">
        <p>Start one above, or import a result file: POST /api/v1/benchmark-runs/import.</p>
      </Empty>
    );
  }
  return (
    <>
      <RunTable
        runs={runs}
        chosen={chosen}
        onChoose={(id, isChosen) =>
          setChosen((before) => (isChosen ? [...before, id].slice(-2) : before.filter((other) => other !== id)))
        }
      />
      <p>
        <button
          type="button"
          disabled={!baseline || !candidate}
          onClick={() => go("benchmarks", "comparison", baseline ?? "", candidate ?? "")}
        >
          Compare the two chosen
        </button>{" "}
        <span className="small muted">The older is the baseline.</span>
      </p>
    </>
  );
}

/** How far down the list a run stands: lists are newest first. */
function age(runs: readonly Run[], id: string): number {
  return runs.findIndex((run) => run.id === id);
}
