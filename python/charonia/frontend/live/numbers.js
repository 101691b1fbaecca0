// What is made of two snapshots of one model: rates, percentiles, use. No page here.

// The counts that `later` has and `earlier` has not. A model that was loaded anew starts again: its own counts are new then.
export function difference(earlier, later) {
  if (!earlier || later.success < earlier.success || later.executions < earlier.executions) return { ...later, fresh: true };
  const minus = (a, b) => Object.fromEntries(Object.entries(a).map(([key, value]) => [key, value - (b[key] ?? 0)]));
  return {
    success: later.success - earlier.success,
    failed: minus(later.failed, earlier.failed),
    inferences: later.inferences - earlier.inferences,
    queue_ms: later.queue_ms - earlier.queue_ms,
    executions: later.executions - earlier.executions,
    busy_ms: later.busy_ms - earlier.busy_ms,
    cache_hits: later.cache_hits - earlier.cache_hits,
    cache_misses: later.cache_misses - earlier.cache_misses,
    latency: later.latency.map((count, index) => count - earlier.latency[index]),
    batches: minus(later.batches, earlier.batches),
    fresh: false,
  };
}

// The latency below which this share of the requests stayed, in milliseconds; null without requests. Inside a bucket it is
// taken as evenly spread; beyond the last bound there is only that bound.
export function percentile(counts, bounds, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return null;
  const rank = share * total;
  let below = 0;
  for (let index = 0; index < counts.length; index++) {
    if (counts[index] && below + counts[index] >= rank) {
      if (index >= bounds.length) return bounds[bounds.length - 1];
      const low = index ? bounds[index - 1] : 0;
      return low + (bounds[index] - low) * Math.max(0, (rank - below) / counts[index]);
    }
    below += counts[index];
  }
  return bounds[bounds.length - 1];
}

export const sum = (values) => Object.values(values).reduce((total, value) => total + value, 0);

export function shownMs(ms) {
  if (ms === null) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
  return `${(ms / 1000).toFixed(2)} s`;
}

export function shownRate(rate) {
  if (rate === null) return "–";
  if (rate === 0) return "0";
  if (rate < 10) return rate.toFixed(1);
  return Math.round(rate).toLocaleString("en");
}

export function shownTime(seconds) {
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}
