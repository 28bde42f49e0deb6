// The recipes that servers are made from.
import type { JSX } from "react";

import { answerOf, api } from "../api/client";
import { readAll } from "../api/pages";
import { useResource } from "../live/resource";
import { to } from "../route";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { Loaded } from "../ui/Loaded";
import { Page } from "../ui/Page";

export default function ProfilesPage(): JSX.Element {
  const profiles = useResource("profiles", () =>
    readAll((query) => answerOf(api.GET("/api/v1/profiles", { params: { query } }))),
  );
  return (
    <Page title="Profiles" actions={<a href={to("profiles", "+")}>Write a profile</a>}>
      <Loaded of={profiles} what="the profiles">
        {(known) =>
          known.length === 0 ? (
            <Empty title="No profile yet">
              <p>A profile is a recipe: an engine, a model, its arguments, how many GPUs.</p>
            </Empty>
          ) : (
            <div className="scroll-x card" tabIndex={0} role="region" aria-label="Profiles">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Profile</th>
                    <th scope="col">Version</th>
                    <th scope="col">Model</th>
                    <th scope="col">GPUs</th>
                    <th scope="col">Written</th>
                    <th scope="col">Place</th>
                  </tr>
                </thead>
                <tbody>
                  {known.map((profile) => (
                    <tr key={profile.id}>
                      <td>
                        <a href={to("profiles", profile.name)}>{profile.name}</a>
                      </td>
                      <td className="number">{profile.version}</td>
                      <td>{profile.recipe.model_path}</td>
                      <td className="number">{profile.recipe.gpu_count}</td>
                      <td>
                        <Age at={profile.version_created_at} />
                      </td>
                      <td>
                        <a href={to("place", profile.name)} aria-label={`Place a server of ${profile.name}`}>
                          place
                        </a>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}
