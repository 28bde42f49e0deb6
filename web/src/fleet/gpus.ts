// The GPUs of a node as they are now: the inventory says what there is, the watching who holds it since.
import type { Gpu, Node } from "../api/types";

export interface GpusNow {
  gpus: readonly Gpu[];
  /** When their memory and holders were last asked for. */
  at: string;
}

/** Returns null while nothing is known of the node. */
export function gpusNow({ inventory, gpu_holders: watched }: Pick<Node, "inventory" | "gpu_holders">): GpusNow | null {
  if (!inventory) return null;
  if (!watched || watched.error !== null || Date.parse(watched.at) <= Date.parse(inventory.at)) {
    return { gpus: inventory.gpus, at: inventory.at };
  }
  const gpus = inventory.gpus.map((gpu) => {
    const holders = watched.holders.filter((holder) => holder.gpu_uuid === gpu.uuid);
    return { ...gpu, holders, memory_used_mib: heldMemory(holders) };
  });
  return { gpus, at: watched.at };
}

/** What processes hold; the driver's own share, below 1 GiB, is not in it. Null where the driver does not say. */
function heldMemory(holders: Gpu["holders"]): number | null {
  return holders.reduce<number | null>(
    (sum, { memory_mib: held }) => (sum === null || held === null ? null : sum + held),
    0,
  );
}
