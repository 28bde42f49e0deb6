// How numbers, times and words of the API are said to people.
import type { CheckCode, Phase, State } from "../api/types";

const PHASES: Record<Phase, string> = {
  parsing_arguments: "Parsing arguments",
  resolving_config: "Resolving configuration",
  spawning: "Spawning processes",
  distributed_init: "Joining GPUs",
  loading_weights: "Loading weights",
  loading_draft_weights: "Loading draft weights",
  allocating_kv_cache: "Allocating KV cache",
  capturing_graphs: "Capturing graphs",
  compiling_kernels: "Compiling kernels",
  binding_http: "Opening the port",
  warming_up: "Warming up",
  serving: "Serving",
};

export const PHASE_ORDER = Object.keys(PHASES) as Phase[];

export const phaseName = (phase: Phase): string => PHASES[phase] ?? plain(phase);

export const stateName = (state: State): string => capital(state);

/** `suspected_hung` → `suspected hung`. */
export const plain = (token: string): string => token.replaceAll("_", " ");

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const checkName = (code: CheckCode): string => capital(plain(code));

/** < 1 s · 7.3 s · 48 s · 3 min 20 s · 8 h 02 min · 3 d 4 h */
export function seconds(value: number): string {
  if (value < 1) return "< 1 s";
  if (value < 10) return `${value.toFixed(1)} s`;
  return wholeSeconds(value);
}

/** "7.3 s to 48 s", or one of them where both are said alike. */
export function range(from: number, until: number): string {
  return seconds(from) === seconds(until) ? seconds(from) : `${seconds(from)} to ${seconds(until)}`;
}

export function wholeSeconds(value: number): string {
  const s = Math.max(0, Math.round(value));
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.round(s / 3_600);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** 48 s · 3 min · 8 h · 3 d */
export function coarse(value: number): string {
  const s = Math.max(0, Math.floor(value));
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 ? `${Math.floor(s / 3_600)} h` : `${Math.floor(s / 86_400)} d`;
}

/** 14:07:32, with the day before it when that is another. */
export function clock(at: string | number, now = Date.now()): string {
  const date = new Date(at);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date(now).toDateString()
    ? time
    : `${date.toLocaleDateString("en-CA")} ${time}`;
}

/** MiB as GiB, to what an eye can use. */
export const gib = (mib: number): string => (mib < 10_240 ? (mib / 1_024).toFixed(1) : Math.round(mib / 1_024).toString());

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

export const many = (count: number, one: string, more = `${one}s`): string => `${count} ${count === 1 ? one : more}`;

export const secondsBetween = (from: string, to: string | number): number =>
  (new Date(to).getTime() - new Date(from).getTime()) / 1_000;

function two(value: number): string {
  return value.toString().padStart(2, "0");
}
