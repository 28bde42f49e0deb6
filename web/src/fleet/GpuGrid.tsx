// The GPUs of a node: coloured by who holds them, filled by how much of the memory is used.
import type { JSX } from "react";

import type { Gpu, State } from "../api/types";
import { to } from "../route";
import { gib, percent } from "../ui/words";
import "./GpuGrid.css";

interface Props {
  gpus: readonly Gpu[];
  /** The state of each server by name, to tell stale claims from living ones. */
  states: ReadonlyMap<string, State>;
}

const HUES = 6;

export function GpuGrid({ gpus, states }: Props): JSX.Element {
  if (gpus.length === 0) return <p className="small muted">No GPU.</p>;
  const owners = [...new Set(gpus.map((gpu) => gpu.claimed_by).filter((name) => name !== null))];
  return (
    <ul className="gpus" aria-label="GPUs">
      {gpus.map((gpu) => (
        <li key={gpu.uuid}>
          <Cell gpu={gpu} look={lookOf(gpu, owners)} state={gpu.claimed_by ? states.get(gpu.claimed_by) : undefined} />
        </li>
      ))}
    </ul>
  );
}

function lookOf(gpu: Gpu, owners: readonly string[]): string {
  if (gpu.errors.length > 0) return "gpu-broken";
  if (gpu.claimed_by) return `gpu-holder-${(owners.indexOf(gpu.claimed_by) % HUES) + 1}`;
  return gpu.holders.length > 0 ? "gpu-foreign" : "gpu-free";
}

function Cell({ gpu, look, state }: { gpu: Gpu; look: string; state: State | undefined }): JSX.Element {
  const used = gpu.memory_used_mib;
  const total = gpu.memory_total_mib;
  const share = used !== null && total ? used / total : null;
  const holder = gpu.claimed_by ?? gpu.holders[0]?.command;
  const said = [
    `GPU ${gpu.index}, ${gpu.name}`,
    used !== null && total !== null ? `${gib(used)} of ${gib(total)} GiB used` : "memory not known",
    gpu.claimed_by ? `held by ${gpu.claimed_by}${state ? ` (${state})` : ""}` : (holder ?? "free"),
    ...gpu.errors,
    ...gpu.warnings,
  ].join(", ");
  const inside = (
    <>
      <span className="gpu-fill" style={{ height: share === null ? 0 : percent(Math.max(share, 0.02)).replace(" ", "") }} />
      <span className="gpu-index number" aria-hidden="true">
        {gpu.index}
        {gpu.errors.length + gpu.warnings.length > 0 && "!"}
      </span>
      <span className="gpu-used number" aria-hidden="true">
        {used === null ? "–" : gib(used)}
      </span>
      <span className="gpu-holder" aria-hidden="true">
        {gpu.claimed_by ?? (gpu.holders.length > 0 ? "other" : "")}
      </span>
      <span className="hidden-text">{said}</span>
    </>
  );
  return gpu.claimed_by ? (
    <a className={`gpu ${look}`} href={to("servers", gpu.claimed_by)} title={said}>
      {inside}
    </a>
  ) : (
    <span className={`gpu ${look}`} title={said}>
      {inside}
    </span>
  );
}
