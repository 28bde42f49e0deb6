// One profile as a form made from its schema; saving writes the next version.
import { useState, type JSX } from "react";

import { newProfileWish, updateProfileWish } from "../acting/wishes";
import { CurlNote } from "../acting/CurlNote";
import { useSending } from "../acting/useSending";
import { answerOf, api } from "../api/client";
import { Refusal } from "../api/problem";
import type { Profile, Recipe } from "../api/types";
import { useResource } from "../live/resource";
import { go, to } from "../route";
import { useMayAct } from "../session/caller";
import { OnlyLooking } from "../session/OnlyLooking";
import { announce } from "../ui/announce";
import { Loaded } from "../ui/Loaded";
import { Page } from "../ui/Page";
import { TroubleNote } from "../ui/TroubleNote";
import { cleaned } from "./clean";
import { schemaOf } from "./schema";
import { SchemaForm } from "./SchemaForm";

export default function ProfilePage({ name }: { name: string | null }): JSX.Element {
  const path = { profile: name ?? "" };
  const profile = useResource(name, () => answerOf(api.GET("/api/v1/profiles/{profile}", { params: { path } })));
  if (name === null) {
    return (
      <Page title="Write a profile">
        <Editor known={null} />
      </Page>
    );
  }
  return (
    <Page title={name} actions={<a href={to("place", name)}>Place a server of it</a>}>
      <Loaded of={profile} what="the profile">
        {(known) => <Editor key={known.version} known={known} onSaved={profile.reload} />}
      </Loaded>
    </Page>
  );
}

function Editor({ known, onSaved }: { known: Profile | null; onSaved?: () => void }): JSX.Element {
  const [name, setName] = useState(known?.name ?? "");
  const [draft, setDraft] = useState<Record<string, unknown>>(known?.recipe ?? {});
  const recipe = cleaned(draft, schemaOf("Profile")) as Recipe;
  const wish = known ? updateProfileWish(known.name, { recipe }) : newProfileWish({ name, recipe });
  const sending = useSending<Profile>(wish, (saved) => {
    announce(`${saved.name} version ${saved.version} written`);
    if (known) onSaved?.();
    else go("profiles", saved.name);
  });
  const mayAct = useMayAct();
  const problems = sending.trouble instanceof Refusal ? (sending.trouble.problem.errors ?? []) : [];
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void sending.go();
      }}
    >
      {known ? (
        <p className="muted">Version {known.version}. Servers stay at the version they were placed with.</p>
      ) : (
        <label className="card stack tight">
          Name
          <input required pattern="[a-z0-9][a-z0-9._\-]{0,62}" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
      )}
      <div className="card stack">
        <SchemaForm schema="Profile" value={draft} onChange={setDraft} problems={problems} place="body.recipe" />
      </div>
      {sending.trouble && <TroubleNote trouble={sending.trouble} />}
      <CurlNote wish={wish} requestKey={sending.key} />
      <p>
        <button type="submit" className="primary" disabled={sending.isUnderWay || !mayAct}>
          {known ? "Write the next version" : "Write the profile"}
        </button>{" "}
        {!mayAct && <OnlyLooking />}
      </p>
    </form>
  );
}
