// What can go wrong with a request: the service refused it, or it was not reached.
import type { Problem } from "./types";

/** The service answered with a problem document. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail);
  }

  get code(): string {
    return this.problem.code;
  }
}

/** No answer came: the service is down, or the way to it. */
export class Unreached extends Error {
  constructor() {
    super("Vigil does not answer.");
  }
}

export type Trouble = Refusal | Unreached;

export function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "detail" in value;
}

/** Returns what went wrong, or rethrows what is a fault of this page. */
export function asTrouble(error: unknown): Trouble {
  if (error instanceof Refusal || error instanceof Unreached) return error;
  if (error instanceof TypeError) return new Unreached();
  throw error;
}

/** The answer of something between that is no problem document, such as a proxy's 502. */
export function strangeAnswer(response: Response): Refusal {
  const detail = `The answer was ${response.status} ${response.statusText}`.trim();
  return new Refusal(response.status, {
    type: "about:blank",
    title: detail,
    status: response.status,
    detail,
    code: `http_${response.status}`,
    remedy: "Look whether something between this page and Vigil answers in its place.",
  });
}
