// What an operator can ask for, with the bodies that openapi.json gives.
import type { components } from "../api/schema";
import type { Wish } from "./request";

type Schemas = components["schemas"];
type LaunchWish = Schemas["LaunchWish"];

const at = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join("/")}`;

export const launchWish = (server: string, body: LaunchWish): Wish => withBody(at("servers", server, "launch"), body);

export const restartWish = (server: string, body: LaunchWish): Wish => withBody(at("servers", server, "restart"), body);

export const stopWish = (server: string): Wish => ({ method: "POST", path: at("servers", server, "stop") });

export const removeWish = (server: string): Wish => ({ method: "DELETE", path: at("servers", server) });

export const placeWish = (body: Schemas["ServerCreate"]): Wish => ({ method: "POST", path: "/servers", body });

export const newProfileWish = (body: Schemas["ProfileCreate"]): Wish => ({ method: "POST", path: "/profiles", body });

export const updateProfileWish = (profile: string, body: Schemas["ProfileUpdate"]): Wish => ({
  method: "PUT",
  path: at("profiles", profile),
  body,
});

export const runWish = (body: Schemas["BenchmarkRunCreate"]): Wish => ({ method: "POST", path: "/benchmark-runs", body });

export const cancelWish = (operation: string): Wish => ({ method: "POST", path: at("operations", operation, "cancel") });

export const baselineWish = (profile: string, run: string): Wish => ({
  method: "PUT",
  path: at("profiles", profile, "baseline"),
  body: { run },
});

/** A body that says nothing is left out. */
function withBody(path: string, body: LaunchWish): Wish {
  const isEmpty = !body.override?.length && body.version == null;
  return { method: "POST", path, ...(!isEmpty && { body }) };
}
