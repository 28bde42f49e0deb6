import { expect, test } from "vitest";

import { figure, metricTitle } from "./metrics";

test("a number of a metric is never without its unit: it stands with the number or in the title", () => {
  const said = (name: string, value: number): string => `${metricTitle(name)}: ${figure(value, name)}`;
  expect(said("mean_power_w", 412.4)).toBe("Mean power: 412 W");
  expect(said("ttft_p99_ms", 1_234)).toBe("TTFT p99: 1.23 s");
  expect(said("slo_attainment", 0.953)).toBe("Within limits: 95.3 %");
  expect(said("draft_acceptance_rate", 0.5)).toBe("Draft acceptance: 50 %");
  expect(said("cache_hit_rate", 0)).toBe("Cache hits: 0 %");
  expect(said("mean_concurrency", 7.94)).toBe("Mean concurrency: 7.94 requests");
  expect(said("accept_length", 3.1)).toBe("Accept length: 3.10");
  expect(said("input_throughput_tps", 1_234)).toBe("Input tokens/s: 1,234");
  expect(said("output_throughput_tps_per_gpu", 90)).toBe("Output tokens/s per GPU: 90");
});
