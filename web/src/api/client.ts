// The only place that asks the service: typed by openapi.json, with the token, problems as exceptions.
import createClient from "openapi-fetch";

import { token } from "../session/token";
import { isProblem, Refusal, strangeAnswer, Unreached } from "./problem";
import type { paths } from "./schema";

export const api = createClient<paths>({ baseUrl: location.origin });

api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(token.header())) request.headers.set(name, value);
    return request;
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the document of an answer; throws Refusal or Unreached. */
export async function answerOf<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call.catch(rethrow);
  if (response.ok) return data as T;
  throw refusal(response, error);
}

/** Opens something that is no JSON document, such as a log or a stream; throws Refusal or Unreached. */
export async function open(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, { ...init, headers: { ...init.headers, ...token.header() } }).catch(rethrow);
  if (response.ok) return response;
  throw refusal(response, await response.json().catch(() => null));
}

function refusal(response: Response, body: unknown): Refusal {
  if (response.status === 401) token.refused();
  return isProblem(body) ? new Refusal(response.status, body) : strangeAnswer(response);
}

function rethrow(error: unknown): never {
  throw error instanceof TypeError ? new Unreached() : error;
}
