import { expect, test } from "vitest";

import type { Node } from "../api/types";
import { gpusNow } from "./gpus";

const GPU = {
  index: 0, uuid: "GPU-a", name: "H200", memory_total_mib: 143_771, memory_used_mib: 4, holders: [], errors: [], warnings: [], claimed_by: null,
};
const HOLDER = { gpu_uuid: "GPU-a", pid: 7, memory_mib: 1000, command: "python", user: "ops", launch_id: null };
const inventory = { at: "2026-11-29T16:00:00.000Z", gpus: [GPU] } as unknown as Node["inventory"];

function watched(at: string, holders: (typeof HOLDER | (Omit<typeof HOLDER, "memory_mib"> & { memory_mib: null }))[], error: string | null = null) {
  return { inventory, gpu_holders: { at, holders, error } };
}

test("what was asked later is shown", () => {
  const now = gpusNow(watched("2026-11-29T16:00:15.000Z", [HOLDER, { ...HOLDER, pid: 8, memory_mib: 24 }, { ...HOLDER, gpu_uuid: "GPU-b" }]));
  expect(now?.at).toBe("2026-11-29T16:00:15.000Z");
  expect(now?.gpus[0]).toMatchObject({ memory_used_mib: 1024, memory_total_mib: 143_771 });
  expect(now?.gpus[0]?.holders.map((holder) => holder.pid)).toEqual([7, 8]);
});

test("a process whose memory is not told leaves the sum unknown", () => {
  expect(gpusNow(watched("2026-11-29T16:00:15.000Z", [HOLDER, { ...HOLDER, memory_mib: null }]))?.gpus[0]?.memory_used_mib).toBeNull();
});

test("an older answer, or none, leaves the inventory as it is", () => {
  const asLooked = { gpus: [GPU], at: "2026-11-29T16:00:00.000Z" };
  expect(gpusNow(watched("2026-11-29T15:59:59.000Z", [HOLDER]))).toEqual(asLooked);
  expect(gpusNow(watched("2026-11-29T16:00:15.000Z", [], "stuck"))).toEqual(asLooked);
  expect(gpusNow({ inventory, gpu_holders: null })).toEqual(asLooked);
});

test("nothing is known before the first look", () => {
  expect(gpusNow({ inventory: null, gpu_holders: null })).toBeNull();
});
