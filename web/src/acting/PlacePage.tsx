// A new server: a profile on a node, checked before it is launched.
import { useState, type JSX } from "react";

import { answerOf, api } from "../api/client";
import { readAll } from "../api/pages";
import type { components } from "../api/schema";
import type { Profile } from "../api/types";
import { fleet, readFleet } from "../live/fleet";
import { useResource } from "../live/resource";
import { useStore } from "../live/store";
import { go, to } from "../route";
import { useMayAct } from "../session/caller";
import { OnlyLooking } from "../session/OnlyLooking";
import { announce } from "../ui/announce";
import { Empty } from "../ui/Empty";
import { Loaded } from "../ui/Loaded";
import { Page } from "../ui/Page";
import { TroubleNote } from "../ui/TroubleNote";
import { CurlNote } from "./CurlNote";
import { PlaceFields, type Place } from "./PlaceFields";
import { PreflightReport } from "./PreflightReport";
import { usePreflight, type PreflightWish } from "./usePreflight";
import { useSending } from "./useSending";
import { placeWish } from "./wishes";

export default function PlacePage({ profile }: { profile: string | null }): JSX.Element {
  const profiles = useResource("profiles", () =>
    readAll((query) => answerOf(api.GET("/api/v1/profiles", { params: { query } }))),
  );
  return (
    <Page title="Place a server">
      <Loaded of={profiles} what="the profiles">
        {(known) =>
          known.length === 0 ? (
            <Empty title="No profile yet">
              <p>
                A server is a profile on a node: <a href={to("profiles", "+")}>write a profile</a> first.
              </p>
            </Empty>
          ) : (
            <Form profiles={known} first={profile} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Form({ profiles, first }: { profiles: Profile[]; first: string | null }): JSX.Element {
  const nodes = useStore(fleet, (value) => value.nodes);
  const [place, setPlace] = useState<Place>({ name: "", profile: first ?? "", node: "", gpus: [], port: "" });
  const [asked, setAsked] = useState<PreflightWish | null>(null);
  const mayAct = useMayAct();
  const where = whereOf(place);
  const isAsked = asked !== null && JSON.stringify(asked) === JSON.stringify(where);
  const checked = usePreflight(isAsked ? asked : null);
  const body: components["schemas"]["ServerCreate"] = {
    ...where,
    name: place.name,
    launch: true,
    override: checked.overridden,
  };
  const sending = useSending(placeWish(body), () => {
    announce(`${place.name} placed, its launch accepted`);
    void readFleet();
    go("servers", place.name);
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isAsked && checked.isClear) void sending.go();
        else setAsked(where);
      }}
    >
      <PlaceFields place={place} onChange={setPlace} profiles={profiles} nodes={[...(nodes?.values() ?? [])]} />
      {isAsked && (
        <Loaded of={checked.report} what="what its launch would meet">
          {(report) => <PreflightReport preflight={report} overridden={checked.overridden} onOverride={checked.override} />}
        </Loaded>
      )}
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
      {isAsked && checked.report.value && <CurlNote wish={placeWish(body)} requestKey={sending.key} />}
      <div className="row">
        <button
          type="submit"
          className="primary"
          disabled={sending.isUnderWay || !mayAct || (isAsked && !checked.isClear)}
        >
          {isAsked && checked.report.value ? `Place and launch ${place.name}` : "Check before the launch"}
        </button>
        {!mayAct && <OnlyLooking />}
      </div>
    </form>
  );
}

function whereOf(place: Place): PreflightWish & { profile: string; node: string } {
  return {
    profile: place.profile,
    node: place.node,
    ...(place.gpus.length > 0 && { gpus: place.gpus }),
    ...(place.port !== "" && { port: Number(place.port) }),
  };
}
