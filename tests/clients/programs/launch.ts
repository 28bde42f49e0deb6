// Takes a node in, launches a server on it, follows it to ready and stops it, with types made from openapi.json.
import createClient from "openapi-fetch";
import type { components, paths } from "./vigil.js";

type Operation = components["schemas"]["OperationPublic"];
type State = components["schemas"]["State"];

const api = createClient<paths>({
  baseUrl: setting("VIGIL_URL"),
  headers: { Authorization: `Bearer ${setting("VIGIL_TOKEN")}` },
});
const states: State[] = [];

const node = await takeIn("atlas");
await api.POST("/api/v1/profiles", {
  body: {
    name: "tiny",
    recipe: {
      python: setting("ENGINE_PYTHON"),
      model_path: setting("MODEL_PATH"),
      gpu_count: 1,
      env: { VIGIL_SIM_SCRIPT: "fast" },
    },
  },
}).then(valueOf);
await api.POST("/api/v1/servers", { body: { name: "one", profile: "tiny", node: "atlas" } }).then(valueOf);
const up = await launch("one");
const down = await stop("one");
console.log(JSON.stringify({ gpus: node.inventory?.gpus.length, up: up.state, down: down.state, states }));

// What docs/clients.md shows begins here.
async function launch(server: string): Promise<Operation> {
  const accepted = await api.POST("/api/v1/servers/{server}/launch", {
    params: { path: { server }, header: { "Idempotency-Key": crypto.randomUUID() } },
  });
  const ended = await follow(valueOf(accepted));
  const { data, error } = await api.GET("/api/v1/servers/{server}/wait", {
    params: { path: { server }, query: { until: "ready", timeout_s: 60 } },
  });
  if (error) throw new Error(`${error.code}: ${error.detail} ${error.remedy}`);
  states.push(data.state);
  return ended;
}
// Here it ends.

async function stop(server: string): Promise<Operation> {
  const ended = await follow(
    await api.POST("/api/v1/servers/{server}/stop", { params: { path: { server } } }).then(valueOf),
  );
  const { state } = await api.GET("/api/v1/servers/{server}", { params: { path: { server } } }).then(valueOf);
  states.push(state);
  return ended;
}

async function follow(accepted: Operation): Promise<Operation> {
  let seen = accepted;
  while (seen.state === "running") {
    await pause();
    seen = await api
      .GET("/api/v1/operations/{operation}", { params: { path: { operation: accepted.id } } })
      .then(valueOf);
  }
  return seen;
}

async function takeIn(name: string): Promise<components["schemas"]["NodePublic"]> {
  let seen = await api
    .POST("/api/v1/nodes", {
      body: {
        name,
        address: setting("NODE_ADDRESS"),
        port: Number(setting("NODE_PORT")),
        user: setting("NODE_USER"),
        credential: { kind: "key_file", path: setting("NODE_KEY") },
        trust_on_first_use: true,
        engines: [setting("ENGINE_PYTHON")],
      },
    })
    .then(valueOf);
  while (seen.contact.state !== "ok") {
    await pause();
    seen = await api.GET("/api/v1/nodes/{node}", { params: { path: { node: name } } }).then(valueOf);
  }
  return seen;
}

interface Answer<T> {
  data?: T;
  error?: components["schemas"]["Problem"];
}

function valueOf<T>({ data, error }: Answer<T>): T {
  if (data === undefined) throw new Error(`${error?.code}: ${error?.detail}`);
  return data;
}

function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, 100));
}

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
