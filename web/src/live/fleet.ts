// The picture of the fleet that all views share: read once, then kept true by events.
import { answerOf, api } from "../api/client";
import { asTrouble, type Trouble } from "../api/problem";
import type { Node, Server } from "../api/types";
import { readAll } from "../api/pages";
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

export async function readFleet(): Promise<void> {
  await attempt(async () => {
    const [servers, nodes] = await Promise.all([
      readAll((query) => answerOf(api.GET("/api/v1/servers", { params: { query } }))),
      readAll((query) => answerOf(api.GET("/api/v1/nodes", { params: { query } }))),
    ]);
    const before = fleet.get();
    fleet.update({ servers: keepSame(before.servers, servers), nodes: keepSame(before.nodes, nodes) });
  });
}

export async function readNodes(): Promise<void> {
  await attempt(async () => {
    const nodes = await readAll((query) => answerOf(api.GET("/api/v1/nodes", { params: { query } })));
    fleet.update({ nodes: keepSame(fleet.get().nodes, nodes) });
  });
}

/** Reads these servers again, by id; one that is gone is dropped. */
export async function readServers(ids: Iterable<string>): Promise<void> {
  await attempt(async () => {
    const gone = new Set<string>();
    const found = await Promise.all(
      [...ids].map(async (id) => {
        const { data, response } = await api.GET("/api/v1/servers/{server}", { params: { path: { server: id } } });
        if (response.status === 404) gone.add(id);
        return data;
      }),
    );
    const fresh = found.filter((server) => server !== undefined);
    const names = new Set(fresh.map((server) => server.name));
    const known = [...(fleet.get().servers?.values() ?? [])];
    const rest = known.filter((server) => !gone.has(server.id) && !names.has(server.name));
    fleet.update({ servers: keepSame(fleet.get().servers, [...fresh, ...rest]) });
  });
}

/** Reads those that are on their way: their progress is no event. */
export async function readMoving(): Promise<void> {
  const query = { state: "starting", limit: 200 } as const;
  await attempt(async () => {
    const page = await answerOf(api.GET("/api/v1/servers", { params: { query } }));
    const names = new Set(page.items.map((server) => server.name));
    const rest = [...(fleet.get().servers?.values() ?? [])].filter((server) => !names.has(server.name));
    fleet.update({ servers: keepSame(fleet.get().servers, [...page.items, ...rest]) });
  });
}

async function attempt(read: () => Promise<void>): Promise<void> {
  try {
    await read();
    fleet.update({ trouble: null, readAt: Date.now() });
  } catch (error) {
    fleet.update({ trouble: asTrouble(error) });
  }
}
