// A request that changes something: sent once, and shown as the curl line that does the same.
import { open } from "../api/client";
import { session } from "../session/token";

export interface Wish {
  method: "POST" | "PUT" | "DELETE";
  /** Below /api/v1. */
  path: string;
  body?: unknown;
}

/** Sends it with a key, so that trying again after a lost answer does not do it twice. */
export async function send<T>(wish: Wish, key: string): Promise<T> {
  const response = await open(`/api/v1${wish.path}`, {
    method: wish.method,
    headers: { "Idempotency-Key": key, ...(wish.body !== undefined && { "Content-Type": "application/json" }) },
    ...(wish.body !== undefined && { body: JSON.stringify(wish.body) }),
  });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** A new key; crypto.randomUUID is missing where the page came without TLS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The token is named, never shown. */
export function curlOf(wish: Wish, key: string): string {
  const parts = ["curl --fail --silent", `-X ${wish.method}`, `-H ${quoted(`Idempotency-Key: ${key}`)}`];
  if (session.get().value) parts.push('-H "Authorization: Bearer $VIGIL_TOKEN"');
  if (wish.body !== undefined) {
    parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(wish.body))}`);
  }
  return [...parts, quoted(`${location.origin}/api/v1${wish.path}`)].join(" \\\n  ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
