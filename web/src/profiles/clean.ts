// What was left empty in a form is left out of the request, so that the service's own default holds.

export function cleaned(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined && item !== "")
      .map(([name, item]) => [name, isGroup(item) ? cleaned(item) : item]),
  );
}

function isGroup(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
