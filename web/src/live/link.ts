// Keeps the picture of the fleet true: events say what to read again; a slow look at all finds what they missed.
import { Feed } from "./feed";
import { fleet, readFleet, readMoving, readNodes, readServers } from "./fleet";
import type { StreamEvent } from "./sse";
import { Store } from "./store";

const GATHER_MS = 250;
const AGAIN_AFTER_MS = 2_000;
const MOVING_EVERY_MS = 1_000;
const ALL_EVERY_MS = 30_000;
const ALL_WITHOUT_EVENTS_EVERY_MS = 2_000;
const ONE_BY_ONE = 8;
const SETTLE_MS = 1_000;

/** Whether events come. Without them the fleet is read every two seconds, if the service answers at all. */
export type Link = "opening" | "live" | "lost";

export const link = new Store<Link>("opening");

type Listener = (event: FleetEvent) => void;

export interface FleetEvent {
  id: string;
  kind: string;
  server_id: string | null;
  node_id: string | null;
  launch_id: string | null;
  at: string;
  document: Record<string, unknown>;
}

const listeners = new Set<Listener>();

/** Calls `listener` with each event from now on; returns what ends that. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Follows the fleet until the returned function is called. */
export function keepTrue(): () => void {
  const ending = new AbortController();
  const changed = new Changed(ending.signal);
  let isFirst = true;
  const feed = new Feed(
    () => "/api/v1/events",
    {
      onOpen() {
        link.set("live");
        // What happened between the first reading and the first event is not urgent: the first picture is.
        setTimeout(() => void readFleet(), isFirst ? SETTLE_MS : 0);
        isFirst = false;
      },
      onEvent(event) {
        if (event.kind === "gap") void readFleet();
        else changed.take(read(event));
      },
      onLost() {
        link.set("lost");
        void readFleet();
      },
    },
    ending.signal,
  );
  void readFleet();
  void feed.run();
  every(() => (link.get() === "live" ? ALL_EVERY_MS : ALL_WITHOUT_EVENTS_EVERY_MS), readFleet, ending.signal);
  every(() => MOVING_EVERY_MS, async () => void (isAnyMoving() && (await readMoving())), ending.signal);
  return () => ending.abort();
}

/** What events said has changed, read again together. */
class Changed {
  readonly #servers = new Set<string>();
  #isAboutNodes = false;
  #timer: number | null = null;

  constructor(private readonly signal: AbortSignal) {}

  take(event: FleetEvent): void {
    for (const listener of listeners) listener(event);
    if (event.server_id) this.#servers.add(event.server_id);
    if (!event.server_id || event.kind === "server_moved") this.#isAboutNodes = true;
    this.#timer ??= window.setTimeout(() => void this.#readAgain(), GATHER_MS);
  }

  async #readAgain(): Promise<void> {
    const ids = [...this.#servers];
    const isAboutNodes = this.#isAboutNodes;
    this.#servers.clear();
    this.#isAboutNodes = false;
    const isRead = this.signal.aborted || (await readWhatChanged(ids, isAboutNodes));
    if (!isRead) {
      // No event will say it a second time.
      for (const id of ids) this.#servers.add(id);
      this.#isAboutNodes ||= isAboutNodes;
    }
    this.#timer = null;
    if (this.#servers.size > 0 || this.#isAboutNodes) {
      this.#timer = window.setTimeout(() => void this.#readAgain(), isRead ? GATHER_MS : AGAIN_AFTER_MS);
    }
  }
}

async function readWhatChanged(ids: readonly string[], isAboutNodes: boolean): Promise<boolean> {
  if (ids.length > ONE_BY_ONE) return readFleet();
  const done = await Promise.all([ids.length > 0 ? readServers(ids) : true, isAboutNodes ? readNodes() : true]);
  return done.every(Boolean);
}

function read(event: StreamEvent): FleetEvent {
  return { ...(JSON.parse(event.data) as FleetEvent), id: event.id, kind: event.kind };
}

function isAnyMoving(): boolean {
  return [...(fleet.get().servers?.values() ?? [])].some((server) => server.state === "starting");
}

/** Calls `look` again and again, never twice at once and not while nobody sees the page. */
function every(pauseMs: () => number, look: () => Promise<unknown>, signal: AbortSignal): void {
  const rest = (): void => void setTimeout(() => void turn(), pauseMs());
  const turn = async (): Promise<void> => {
    if (signal.aborted) return;
    if (!document.hidden) await look();
    rest();
  };
  rest();
}
