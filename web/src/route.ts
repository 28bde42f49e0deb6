// Which view is shown: it stands behind the # of the address, so that the service serves one page only.
import { useSyncExternalStore } from "react";

export type Route =
  | { view: "fleet" }
  | { view: "server"; name: string; tab: "now" | "history" }
  | { view: "launch"; id: string }
  | { view: "node"; name: string }
  | { view: "place"; profile: string | null }
  | { view: "profiles" }
  | { view: "profile"; name: string }
  | { view: "newProfile" }
  | { view: "benchmarks" }
  | { view: "run"; id: string }
  | { view: "comparison"; baseline: string; candidate: string }
  | { view: "benchmarkHistory"; profile: string; metric: string | null; key: string | null }
  | { view: "unknown" };

export function parse(hash: string): Route {
  const [path = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first = "", second, third, fourth, fifth] = path.split("/").map(decode);
  switch (first) {
    case "":
      return { view: "fleet" };
    case "servers":
      return second ? { view: "server", name: second, tab: third === "history" ? "history" : "now" } : { view: "fleet" };
    case "launches":
      return second ? { view: "launch", id: second } : { view: "unknown" };
    case "nodes":
      return second ? { view: "node", name: second } : { view: "fleet" };
    case "place":
      return { view: "place", profile: second ?? null };
    case "profiles":
      if (second === undefined) return { view: "profiles" };
      return second === "+" ? { view: "newProfile" } : { view: "profile", name: second };
    case "benchmarks":
      return benchmarkRoute(second, third, fourth, fifth);
    default:
      return { view: "unknown" };
  }
}

function benchmarkRoute(second?: string, third?: string, fourth?: string, fifth?: string): Route {
  if (second === undefined) return { view: "benchmarks" };
  if (second === "runs" && third) return { view: "run", id: third };
  if (second === "comparison" && third && fourth) return { view: "comparison", baseline: third, candidate: fourth };
  if (second === "history" && third) {
    return { view: "benchmarkHistory", profile: third, metric: fourth ?? null, key: fifth ?? null };
  }
  return { view: "unknown" };
}

/** The address of a view: `to("servers", "llama")` → `#/servers/llama`. */
export const to = (...parts: string[]): string => `#/${parts.map(encodeURIComponent).join("/")}`;

export function go(...parts: string[]): void {
  location.hash = to(...parts);
}

export function useRoute(): Route {
  const hash = useSyncExternalStore(watchHash, () => location.hash);
  return parse(hash);
}

function watchHash(watcher: () => void): () => void {
  addEventListener("hashchange", watcher);
  return () => removeEventListener("hashchange", watcher);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
