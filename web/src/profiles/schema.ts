// What of JSON Schema the forms understand: enough for what openapi.json says of a profile.
import forms from "../api/forms.json";

export interface Schema {
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  items?: Schema;
  examples?: unknown[];
  $ref?: string;
}

const SCHEMAS = forms as unknown as Record<string, Schema>;

export function schemaOf(name: string): Schema {
  return resolved({ $ref: `#/components/schemas/${name}` });
}

/** Follows a reference; what stands beside it, such as a default, goes before. */
export function resolved(schema: Schema): Schema {
  if (!schema.$ref) return schema;
  const target = SCHEMAS[schema.$ref.split("/").at(-1) ?? ""];
  if (!target) throw new Error(`openapi.json has no schema ${schema.$ref}`);
  const { $ref: _, ...beside } = schema;
  return { ...resolved(target), ...beside };
}

/** What a field is, as a form shows it. */
export type Kind = "text" | "number" | "integer" | "flag" | "choice" | "group" | "texts" | "groups" | "values";

export interface Field {
  kind: Kind;
  schema: Schema;
  /** Of the members of a map. */
  item: Schema | null;
  isNullable: boolean;
}

export function fieldOf(raw: Schema): Field {
  const choices = (raw.anyOf ?? []).map(resolved);
  const real = choices.filter((choice) => choice.type !== "null");
  const isNullable = real.length < choices.length;
  const schema = real.length === 1 ? { ...real[0], ...withoutChoices(raw) } : resolved(raw);
  return { ...kindOf(schema), schema, isNullable };
}

function kindOf(schema: Schema): { kind: Kind; item: Schema | null } {
  if (schema.enum) return { kind: "choice", item: null };
  if (schema.properties) return { kind: "group", item: null };
  if (typeof schema.additionalProperties === "object") {
    const item = resolved(schema.additionalProperties);
    return { kind: item.properties ? "groups" : item.type === "string" ? "texts" : "values", item };
  }
  if (schema.type === "boolean") return { kind: "flag", item: null };
  if (schema.type === "integer") return { kind: "integer", item: null };
  if (schema.type === "number") return { kind: "number", item: null };
  return { kind: "text", item: null };
}

function withoutChoices({ anyOf: _, ...rest }: Schema): Schema {
  return rest;
}
