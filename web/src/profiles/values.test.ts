import { expect, test } from "vitest";

import { cleaned } from "./clean";
import { fieldOf, schemaOf } from "./schema";
import { fromText, toText } from "./values";

test("values go to text and back", () => {
  for (const value of [8, 0.85, true, null, "auto", "8", "true", [1, 2], { a: "b" }, ""]) {
    expect(fromText(toText(value))).toEqual(value);
  }
  expect(toText("auto")).toBe("auto");
});

test("what was left empty is left out, so that the service's default holds", () => {
  const written = { python: "", model_path: undefined, gpu_count: 0, limits: { start_s: "", hang_after_s: null } };
  expect(cleaned(written, schemaOf("Profile"))).toEqual({ gpu_count: 0, limits: { hang_after_s: null } });
});

test("what is empty in a map was written so", () => {
  const written = { env: { A: "" }, server_args: { b: "" }, secret_env: { C: { env: "C", file: "" } } };
  expect(cleaned(written, schemaOf("Profile"))).toEqual({ ...written, secret_env: { C: { env: "C" } } });
});

test("every field of a profile has a kind that the form can show", () => {
  const { properties = {} } = schemaOf("Profile");
  const kinds = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, fieldOf(schema).kind]));
  expect(kinds).toMatchObject({
    python: "text",
    server_args: "values",
    env: "texts",
    secret_env: "groups",
    gpu_count: "integer",
    limits: "group",
    on_crash: "choice",
    restart: "group",
  });
  const limits = schemaOf("Limits").properties ?? {};
  expect(fieldOf(limits["start_s"]!)).toMatchObject({ kind: "integer", isNullable: true });
});
