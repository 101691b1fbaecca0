//! Totals since start, and gauges. Relaxed atomics: each is read alone, nothing is ordered by them.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number that many threads change.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn sub(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub struct Counters {
    pub http_requests: Counter,
    pub grpc_requests: Counter,
    pub infer_calls: Counter,
    pub replies: Counter,
    /// Replies to calls that were already settled; ignored.
    pub late_replies: Counter,
    /// Calls whose owner let go of them without a reply: a bug of the owner.
    pub dropped_calls: Counter,
    pub cancelled_calls: Counter,
    pub panics: Counter,
    /// Gauges from here on.
    pub open_connections: Counter,
    pub waiting_calls: Counter,
    pub unsettled_calls: Counter,
    pub pinned_output_bytes: Counter,
}
