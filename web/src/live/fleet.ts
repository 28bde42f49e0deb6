// The picture of the fleet that all views share: read once, then kept true by events.
import { answerOf, api } from "../api/client";
import { asTrouble, Refusal, type Trouble } from "../api/problem";
import type { Node, Server } from "../api/types";
import { readAll } from "../api/pages";
import { Newest } from "./newest";
import { keepSame } from "./same";
import { Store } from "./store";

export interface Fleet {
  /** By name; null until they were read once. */
  servers: ReadonlyMap<string, Server> | null;
  nodes: ReadonlyMap<string, Node> | null;
  /** Why the last reading failed; null after one that went well. */
  trouble: Trouble | null;
  readAt: number | null;
}

export const fleet = new Store<Fleet>({ servers: null, nodes: null, trouble: null, readAt: null });

const newestServers = new Newest<Server>();
const newestNodes = new Newest<Node>();

/** Each reading tells whether it went well. */
export function readFleet(): Promise<boolean> {
  return attempt("all", async () => {
    const [ofServers, ofNodes] = [newestServers.ask(), newestNodes.ask()];
    const [servers, nodes] = await Promise.all([
      readAll((query) => answerOf(api.GET("/api/v1/servers", { params: { query } }))),
      readAll((query) => answerOf(api.GET("/api/v1/nodes", { params: { query } }))),
    ]);
    fleet.update({
      servers: keepSame(fleet.get().servers, newestServers.all(ofServers, members(fleet.get().servers), servers)),
      nodes: keepSame(fleet.get().nodes, newestNodes.all(ofNodes, members(fleet.get().nodes), nodes)),
    });
  });
}

export function readNodes(): Promise<boolean> {
  return attempt("nodes", async () => {
    const question = newestNodes.ask();
    const nodes = await readAll((query) => answerOf(api.GET("/api/v1/nodes", { params: { query } })));
    fleet.update({ nodes: keepSame(fleet.get().nodes, newestNodes.all(question, members(fleet.get().nodes), nodes)) });
  });
}

/** Reads these servers again, by id; one that is gone is dropped, and one that cannot be read hides no other. */
export function readServers(ids: Iterable<string>): Promise<boolean> {
  return attempt("servers", async () => {
    const question = newestServers.ask();
    const wanted = [...ids];
    const answers = await Promise.allSettled(
      wanted.map((server) => answerOf(api.GET("/api/v1/servers/{server}", { params: { path: { server } } }))),
    );
    const failures = answers.map((answer) => (answer.status === "rejected" ? (answer.reason as unknown) : null));
    const gone = new Set(wanted.filter((_, index) => isAbsent(failures[index])));
    const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    const items = newestServers.some(question, members(fleet.get().servers), found, gone);
    fleet.update({ servers: keepSame(fleet.get().servers, items) });
    const failure = failures.find((reason) => reason !== null && !isAbsent(reason));
    if (failure !== undefined) throw failure;
  });
}

/** Reads those that are on their way: their progress is no event. */
export function readMoving(): Promise<boolean> {
  return attempt("moving", async () => {
    const question = newestServers.ask();
    const query = { state: "starting", limit: 200 } as const;
    const { items } = await answerOf(api.GET("/api/v1/servers", { params: { query } }));
    fleet.update({ servers: keepSame(fleet.get().servers, newestServers.some(question, members(fleet.get().servers), items)) });
  });
}

function members<T>(map: ReadonlyMap<string, T> | null): T[] {
  return [...(map?.values() ?? [])];
}

function isAbsent(error: unknown): boolean {
  return error instanceof Refusal && error.status === 404;
}

type Part = "servers" | "nodes" | "rest";

/** What could not be read: of servers and nodes it stays until they were, of the rest until anything can be read. */
const troubles = new Map<Part, Trouble>();

async function attempt(what: "all" | "servers" | "nodes" | "moving", read: () => Promise<void>): Promise<boolean> {
  const part: Part = what === "servers" || what === "nodes" ? what : "rest";
  let isRead = true;
  try {
    await read();
    const over: Part[] = what === "all" ? ["servers", "nodes", "rest"] : [part, "rest"];
    for (const each of over) troubles.delete(each);
  } catch (error) {
    troubles.set(part, asTrouble(error));
    isRead = false;
  }
  const [trouble = null] = troubles.values();
  fleet.update(trouble === null ? { trouble, readAt: Date.now() } : { trouble });
  return isRead;
}
