// What was left empty in a form is left out of the request, so that the service's own default holds.
import { fieldOf, type Field, type Schema } from "./schema";

type Value = Record<string, unknown>;

/** Of maps nothing is left out: an empty variable or argument is one that somebody wrote. */
export function cleaned(value: Value, schema: Schema): Value {
  const { properties = {} } = schema;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined && item !== "")
      .map(([name, item]) => [name, properties[name] ? cleanedField(item, fieldOf(properties[name])) : item]),
  );
}

function cleanedField(value: unknown, { kind, schema, item }: Field): unknown {
  if (!isGroup(value)) return value;
  if (kind === "group") return cleaned(value, schema);
  if (kind !== "groups" || !item) return value;
  return Object.fromEntries(Object.entries(value).map(([name, group]) => [name, isGroup(group) ? cleaned(group, item) : group]));
}

function isGroup(value: unknown): value is Value {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
