// Writes the schemas that forms are made from, with all that they refer to, out of openapi.json.
import { readFileSync, writeFileSync } from "node:fs";

const ROOTS = ["Profile"];
const PREFIX = "#/components/schemas/";

const { components } = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));
const taken = {};

function take(name) {
  if (name in taken) return;
  taken[name] = components.schemas[name];
  JSON.stringify(taken[name], (key, value) => {
    if (key === "$ref") take(value.slice(PREFIX.length));
    return value;
  });
}

ROOTS.forEach(take);
writeFileSync(new URL("../src/api/forms.json", import.meta.url), JSON.stringify(taken, null, 1) + "\n");
