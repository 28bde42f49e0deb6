// The frame of the page: the bar, the view that the address names, and what is said when the service is silent.
import { lazy, Suspense, useEffect, type JSX } from "react";

import { FleetPage } from "./fleet/FleetPage";
import { keepTrue, link } from "./live/link";
import { useStore } from "./live/store";
import { useRoute, type Route } from "./route";
import { readCaller } from "./session/caller";
import { session } from "./session/token";
import { TokenGate } from "./session/TokenGate";
import { announcement } from "./ui/announce";
import { Bar } from "./ui/Bar";
import { Empty } from "./ui/Empty";
import { Loading } from "./ui/Loaded";
import { Page } from "./ui/Page";
import { StaleBar } from "./ui/StaleBar";
import "./App.css";

const ServerPage = lazy(() => import("./server/ServerPage"));
const LaunchPage = lazy(() => import("./server/LaunchPage"));
const NodePage = lazy(() => import("./fleet/NodePage"));
const PlacePage = lazy(() => import("./acting/PlacePage"));
const ProfilesPage = lazy(() => import("./profiles/ProfilesPage"));
const ProfilePage = lazy(() => import("./profiles/ProfilePage"));
const BenchmarksPage = lazy(() => import("./benchmarks/BenchmarksPage"));
const RunPage = lazy(() => import("./benchmarks/RunPage"));
const ComparisonPage = lazy(() => import("./benchmarks/ComparisonPage"));
const HistoryPage = lazy(() => import("./benchmarks/HistoryPage"));

export function App(): JSX.Element {
  const route = useRoute();
  const turn = useStore(session, (value) => value.turn);
  const isTokenWanted = useStore(session, (value) => value.isWanted);
  const connection = useStore(link, (value) => value);
  useEffect(keepTrue, [turn]);
  useEffect(() => void readCaller(), [turn, connection]);
  return (
    <>
      <button type="button" className="skip" onClick={() => document.querySelector<HTMLElement>("h1")?.focus()}>
        To the content
      </button>
      <Bar route={route} />
      {isTokenWanted ? (
        <TokenGate />
      ) : (
        <>
          <StaleBar />
          <Suspense fallback={<Waiting />}>
            <View route={route} />
          </Suspense>
        </>
      )}
      <Announcer />
    </>
  );
}

function View({ route }: { route: Route }): JSX.Element {
  switch (route.view) {
    case "fleet":
      return <FleetPage />;
    case "server":
      return <ServerPage key={route.name} name={route.name} tab={route.tab} />;
    case "launch":
      return <LaunchPage key={route.id} id={route.id} />;
    case "node":
      return <NodePage key={route.name} name={route.name} />;
    case "place":
      return <PlacePage profile={route.profile} />;
    case "profiles":
      return <ProfilesPage />;
    case "profile":
      return <ProfilePage key={route.name} name={route.name} />;
    case "newProfile":
      return <ProfilePage key="+" name={null} />;
    case "benchmarks":
      return <BenchmarksPage />;
    case "run":
      return <RunPage key={route.id} id={route.id} />;
    case "comparison":
      return <ComparisonPage baseline={route.baseline} candidate={route.candidate} />;
    case "benchmarkHistory":
      return <HistoryPage profile={route.profile} metric={route.metric} seriesKey={route.key} />;
    case "unknown":
      return (
        <Page title="Not here">
          <Empty title="There is no such view">
            <a href="#/">To the fleet</a>
          </Empty>
        </Page>
      );
  }
}

function Waiting(): JSX.Element {
  return (
    <main className="page">
      <Loading what="the view" />
    </main>
  );
}

function Announcer(): JSX.Element {
  const text = useStore(announcement, (value) => value);
  return (
    <div className="hidden-text" aria-live="polite">
      {text}
    </div>
  );
}
