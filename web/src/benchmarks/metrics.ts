// The names of metrics hold unit and statistic: ttft_p99_ms. This says them to people.

const TITLES: Record<string, string> = {
  output_throughput_tps: "Output tokens/s",
  total_throughput_tps: "All tokens/s",
  input_throughput_tps: "Input tokens/s",
  output_throughput_tps_per_gpu: "Output tokens/s per GPU",
  total_throughput_tps_per_gpu: "Tokens/s per GPU",
  interactivity_tps_user: "Tokens/s per user",
  request_throughput_rps: "Requests/s",
  goodput_rps: "Good requests/s",
  slo_attainment: "Within limits",
  accept_length: "Accept length",
  draft_acceptance_rate: "Draft acceptance",
  cache_hit_rate: "Cache hits",
  mean_concurrency: "Mean concurrency",
  mean_power_w: "Mean power",
  output_tokens_mean: "Output tokens per request",
};

const LATENCIES: Record<string, string> = { ttft: "TTFT", tpot: "TPOT", itl: "ITL", e2e: "Latency", client_queue: "Queue" };

export function metricTitle(name: string): string {
  const latency = /^(ttft|tpot|itl|e2e|client_queue)_(\w+)_ms$/.exec(name);
  if (latency) return `${LATENCIES[latency[1] ?? ""]} ${latency[2]}`;
  return TITLES[name] ?? name.replaceAll("_", " ");
}

const SHARES = ["slo_attainment", "draft_acceptance_rate", "cache_hit_rate"];

/** Three figures that count, with the unit where the title does not tell it. */
export function figure(value: number, name: string): string {
  if (name.endsWith("_ms")) return value >= 1_000 ? `${plainNumber(value / 1_000)} s` : `${plainNumber(value)} ms`;
  if (name.endsWith("_w")) return `${plainNumber(value)} W`;
  if (SHARES.includes(name)) return `${plainNumber(100 * value)} %`;
  if (name === "mean_concurrency") return `${plainNumber(value)} requests`;
  if (name === "accept_length") return value.toFixed(2);
  return plainNumber(value);
}

function plainNumber(value: number): string {
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
}
