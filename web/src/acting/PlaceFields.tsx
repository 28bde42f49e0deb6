// Name, profile, node, and where wanted: these GPUs, this port.
import type { JSX } from "react";

import type { Node, Profile } from "../api/types";
import { gib } from "../ui/words";
import "./PlaceFields.css";

export interface Place {
  name: string;
  profile: string;
  node: string;
  /** None means: so many free ones as the profile says. */
  gpus: number[];
  port: string;
}

interface Props {
  place: Place;
  onChange: (place: Place) => void;
  profiles: readonly Profile[];
  nodes: readonly Node[];
}

export function PlaceFields({ place, onChange, profiles, nodes }: Props): JSX.Element {
  const set = (change: Partial<Place>): void => onChange({ ...place, ...change });
  const node = nodes.find((item) => item.name === place.node);
  return (
    <div className="card place-fields">
      <label>
        Name of the server
        <input
          required
          pattern="[a-z0-9][a-z0-9._\-]{0,62}"
          title="Lower case letters, digits, '.', '_' and '-'"
          value={place.name}
          onChange={(event) => set({ name: event.target.value })}
        />
      </label>
      <label>
        Profile
        <select required value={place.profile} onChange={(event) => set({ profile: event.target.value })}>
          <option value="" disabled>
            Choose
          </option>
          {profiles.map((profile) => (
            <option key={profile.id} value={profile.name}>
              {profile.name}, version {profile.version}, {profile.recipe.gpu_count} GPUs
            </option>
          ))}
        </select>
      </label>
      <label>
        Node
        <select required value={place.node} onChange={(event) => set({ node: event.target.value, gpus: [] })}>
          <option value="" disabled>
            Choose
          </option>
          {nodes.map((item) => (
            <option key={item.id} value={item.name}>
              {item.name} ({item.contact.state === "ok" ? freeGpus(item) : "not heard"})
            </option>
          ))}
        </select>
      </label>
      <label>
        Port
        <input
          inputMode="numeric"
          pattern="[0-9]*"
          placeholder="the first that is free"
          value={place.port}
          onChange={(event) => set({ port: event.target.value })}
        />
      </label>
      {node && (node.inventory?.gpus.length ?? 0) > 0 && (
        <fieldset>
          <legend>GPUs: none chosen means as many free ones as the profile says</legend>
          {node.inventory?.gpus.map((gpu) => (
            <label key={gpu.uuid}>
              <input
                type="checkbox"
                checked={place.gpus.includes(gpu.index)}
                onChange={(event) =>
                  set({
                    gpus: event.target.checked
                      ? [...place.gpus, gpu.index].sort((one, other) => one - other)
                      : place.gpus.filter((index) => index !== gpu.index),
                  })
                }
              />
              {gpu.index}
              <span className="muted small">
                {" "}
                {gpu.claimed_by ?? (gpu.holders.length > 0 ? "other" : "free")}
                {gpu.memory_used_mib !== null && `, ${gib(gpu.memory_used_mib)} GiB used`}
              </span>
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}

function freeGpus(node: Node): string {
  const gpus = node.inventory?.gpus ?? [];
  if (gpus.length === 0) return "no GPU";
  return `${gpus.filter((gpu) => gpu.claimed_by === null && gpu.holders.length === 0).length} of ${gpus.length} GPUs free`;
}
