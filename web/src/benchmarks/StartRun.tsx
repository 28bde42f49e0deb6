// Starts a run of a benchmark on a server that is ready.
import { useState, type JSX } from "react";

import { CurlNote } from "../acting/CurlNote";
import { useSending } from "../acting/useSending";
import { runWish } from "../acting/wishes";
import { answerOf, api } from "../api/client";
import { readAll } from "../api/pages";
import type { components } from "../api/schema";
import type { Benchmark } from "../api/types";
import { fleet } from "../live/fleet";
import { useResource } from "../live/resource";
import { useStore } from "../live/store";
import { go } from "../route";
import { useMayAct } from "../session/caller";
import { OnlyLooking } from "../session/OnlyLooking";
import { announce } from "../ui/announce";
import { TroubleNote } from "../ui/TroubleNote";
import "./StartRun.css";

const REPEATS = 5;
const MOST_REPEATS = 50; // as openapi.json says

export function StartRun(): JSX.Element {
  const servers = useStore(fleet, (value) => value.servers);
  const ready = [...(servers?.values() ?? [])].filter((server) => server.state === "ready");
  const benchmarks = useResource("benchmarks", readBenchmarks);
  const [server, setServer] = useState("");
  const [benchmark, setBenchmark] = useState("");
  const [repeats, setRepeats] = useState(REPEATS);
  const wish = runWish({ server, benchmark, repeats });
  const sending = useSending<components["schemas"]["BenchmarkRunAccepted"]>(wish, (accepted) => {
    announce(`Run of ${accepted.benchmark} on ${accepted.server} accepted`);
    go("benchmarks", "runs", accepted.id);
  });
  const mayAct = useMayAct();
  const about = benchmarks.value?.find((item) => item.name === benchmark);
  return (
    <form
      className="card stack"
      onSubmit={(event) => {
        event.preventDefault();
        void sending.go();
      }}
    >
      <h2>Start a run</h2>
      <div className="start-run">
        <label>
          Server
          <select required value={server} onChange={(event) => setServer(event.target.value)}>
            <option value="" disabled>
              {ready.length === 0 ? "no server is ready" : "Choose"}
            </option>
            {ready.map((item) => (
              <option key={item.id}>{item.name}</option>
            ))}
          </select>
        </label>
        <label>
          Benchmark
          <select required value={benchmark} onChange={(event) => setBenchmark(event.target.value)}>
            <option value="" disabled>
              Choose
            </option>
            {benchmarks.value?.map((item) => (
              <option key={item.name}>{item.name}</option>
            ))}
          </select>
        </label>
        <label>
          Repeats
          <input
            type="number"
            min={1}
            max={MOST_REPEATS}
            required
            value={repeats}
            onChange={(event) => setRepeats(event.target.valueAsNumber || 1)}
          />
        </label>
        <button type="submit" className="primary" disabled={sending.isUnderWay || ready.length === 0 || !mayAct}>
          Start
        </button>
        {!mayAct && <OnlyLooking />}
      </div>
      {about && (
        <p className="small muted">
          {about.loads.join(", ")}; {about.loads.length * repeats} times the client is run. Fewer than five repeats often leave a
          difference unproven.
        </p>
      )}
      {benchmarks.trouble && <TroubleNote trouble={benchmarks.trouble} onRetry={benchmarks.reload} />}
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
      {server && benchmark && <CurlNote wish={wish} requestKey={sending.key} />}
    </form>
  );
}

async function readBenchmarks(): Promise<Benchmark[]> {
  const [own, shipped] = await Promise.all([
    readAll((query) => answerOf(api.GET("/api/v1/benchmarks", { params: { query } }))),
    answerOf(api.GET("/api/v1/benchmark-presets")),
  ]);
  return [...own, ...shipped.benchmarks];
}
