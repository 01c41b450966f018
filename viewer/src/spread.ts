/** How durations are spread, for pages without a server: see serve/api_durations.c. */

import type { Durations } from "./data";

const MOST_BUCKETS = 40;

/** The nth shortest that so many percent of all do not exceed. */
function findPercentile(sorted: Float64Array, percent: number): number {
  return sorted[Math.ceil((sorted.length * percent) / 100) - 1];
}

/** Bounds of buckets, each so many times the one before, to beyond the longest duration. */
function makeBounds(least: number, most: number): number[] {
  const first = Math.max(least, 1),
    last = most + 1,
    bounds = [least];
  for (let i = 1; i < MOST_BUCKETS; i++) {
    const bound = Math.round(first * (last / first) ** (i / MOST_BUCKETS));
    if (bound > bounds[bounds.length - 1] && bound <= most) bounds.push(bound);
  }
  return [...bounds, most + 1];
}

/** Count and sum of the durations in each bucket: [from, below, how many, their sum]. */
function makeBuckets(sorted: Float64Array): Durations["buckets"] {
  const bounds = makeBounds(sorted[0], sorted[sorted.length - 1]),
    buckets = bounds
      .slice(1)
      .map((below, i): Durations["buckets"][number] => [bounds[i], below, 0, 0]);
  let at = 0;
  for (const ns of sorted) {
    while (ns >= buckets[at][1]) at++;
    buckets[at][2]++;
    buckets[at][3] += ns;
  }
  return buckets;
}

/** `without`: how many more have no duration. */
export function describeSpread(durations: number[], without: number): Durations {
  const sorted = Float64Array.from(durations).sort(),
    n = sorted.length,
    total = durations.reduce((sum, ns) => sum + ns, 0);
  if (!n) return { count: 0, without, total, buckets: [] };
  return {
    count: n,
    without,
    total,
    min: sorted[0],
    max: sorted[n - 1],
    median: (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2,
    p90: findPercentile(sorted, 90),
    p99: findPercentile(sorted, 99),
    buckets: makeBuckets(sorted),
  };
}
