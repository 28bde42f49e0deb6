import { beforeEach, expect, test, vi } from "vitest";

import type { Server } from "../api/types";

vi.stubGlobal("location", { origin: "http://vigil" });
vi.stubGlobal("sessionStorage", { getItem: () => null });

/** The questions that were not answered yet, oldest first: each is answered when the test says so. */
const asked: { path: string; answer: (status: number, body: unknown) => void }[] = [];
vi.stubGlobal(
  "fetch",
  (request: Request) =>
    new Promise((resolve) => {
      const answer = (status: number, body: unknown): void => resolve(new Response(JSON.stringify(body), { status }));
      asked.push({ path: request.url.replace("http://vigil/api/v1", ""), answer });
    }),
);
const { fleet, readFleet, readMoving, readNodes, readServers } = await import("./fleet");

const one = (state: string, id = "sv_1"): Server => ({ id, name: "one", state }) as Server;
const page = (...items: unknown[]): unknown => ({ items, next_cursor: null });
const PROBLEM = { code: "internal_error", detail: "It broke.", remedy: "Look at the log." };

/** Answers the oldest open question about a path that begins so. */
async function answer(path: string, body: unknown, status = 200): Promise<void> {
  await vi.waitFor(() => expect(asked.map((question) => question.path).some((open) => open.startsWith(path))).toBe(true));
  asked.splice(asked.findIndex((question) => question.path.startsWith(path)), 1)[0]?.answer(status, body);
}

const states = (): string[] => [...(fleet.get().servers?.values() ?? [])].map(({ name, state }) => `${name} ${state}`);

beforeEach(async () => {
  asked.length = 0;
  const whole = readFleet(); // whatever the test before had trouble with is over
  await answer("/servers?limit", page());
  await answer("/nodes", page());
  await whole;
  fleet.set({ servers: new Map([["one", one("starting")]]), nodes: new Map(), trouble: null, readAt: 1 });
});

test("what was asked for earlier and comes later does not undo what is known: of those that move", async () => {
  const overtaken = readMoving();
  const event = readServers(["sv_1"]);
  await answer("/servers/sv_1", one("ready"));
  await event;
  await answer("/servers?state=starting", page(one("starting")));
  await overtaken;
  expect(states()).toEqual(["one ready"]);
});

test("what was asked for earlier and comes later does not undo what is known: of all", async () => {
  const overtaken = readFleet();
  const event = Promise.all([readServers(["sv_1", "sv_2"]), readNodes()]);
  await answer("/servers/sv_1", {}, 404);
  await answer("/servers/sv_2", { ...one("ready", "sv_2"), name: "new" });
  await answer("/servers?limit", page(one("starting")));
  await answer("/nodes", page({ name: "atlas", is_draining: false }));
  await overtaken;
  await answer("/nodes", page({ name: "atlas", is_draining: true }));
  await event;
  expect(states()).toEqual(["new ready"]);
  expect(fleet.get().nodes?.get("atlas")?.is_draining).toBe(true);
});

test("an older list of all nodes does not undo a newer one", async () => {
  const overtaken = readNodes();
  const newer = readNodes();
  await vi.waitFor(() => expect(asked).toHaveLength(2));
  asked[1]?.answer(200, page({ name: "atlas", is_draining: true }));
  await newer;
  asked[0]?.answer(200, page({ name: "atlas", is_draining: false }));
  await overtaken;
  expect(fleet.get().nodes?.get("atlas")?.is_draining).toBe(true);
});

test("what is asked for later is believed, also about what is gone", async () => {
  const event = readServers(["sv_1"]);
  await answer("/servers/sv_1", one("ready"));
  await event;
  const later = readFleet();
  await answer("/servers?limit", page());
  await answer("/nodes", page());
  await later;
  expect(states()).toEqual([]);
});

test("a server that cannot be read is trouble, and hides nothing of the others", async () => {
  const event = readServers(["sv_1", "sv_2"]);
  await answer("/servers/sv_1", PROBLEM, 500);
  await answer("/servers/sv_2", { ...one("ready", "sv_2"), name: "two" });
  expect(await event).toBe(false);
  expect(states()).toEqual(["one starting", "two ready"]);
  expect(fleet.get().trouble?.message).toBe("It broke.");
});

test("the trouble with a server stays told until it was read, whatever else can be read meanwhile", async () => {
  const event = readServers(["sv_1"]);
  await answer("/servers/sv_1", PROBLEM, 500);
  await event;
  const others = Promise.all([readNodes(), readMoving()]);
  await answer("/nodes", page());
  await answer("/servers?state=starting", page());
  await others;
  expect(fleet.get()).toMatchObject({ trouble: { message: "It broke." }, readAt: 1 });
  const again = readServers(["sv_1"]);
  await answer("/servers/sv_1", one("ready"));
  expect(await again).toBe(true);
  expect(fleet.get().trouble).toBeNull();
});

test("when all was read there is no trouble", async () => {
  const event = Promise.all([readServers(["sv_1"]), readNodes()]);
  await answer("/servers/sv_1", PROBLEM, 500);
  await answer("/nodes", PROBLEM, 500);
  await event;
  const all = readFleet();
  await answer("/servers?limit", page(one("ready")));
  await answer("/nodes", page());
  await all;
  expect(fleet.get().trouble).toBeNull();
});
