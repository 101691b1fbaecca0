//! `Counters`: all numbers, read at once.

use charonia_wire::wire::Wire;
use pyo3::prelude::*;

#[pyclass(frozen, get_all, module = "charonia._wire")]
pub struct Counters {
    http_requests: u64,
    grpc_requests: u64,
    infer_calls: u64,
    replies: u64,
    late_replies: u64,
    dropped_calls: u64,
    cancelled_calls: u64,
    open_connections: u64,
    waiting_calls: u64,
    unsettled_calls: u64,
    body_bytes: u64,
    pinned_output_bytes: u64,
    panics: u64,
}

impl Counters {
    pub fn read(wire: &Wire) -> Self {
        let counters = &wire.counters;
        Self {
            http_requests: counters.http_requests.get(),
            grpc_requests: counters.grpc_requests.get(),
            infer_calls: counters.infer_calls.get(),
            replies: counters.replies.get(),
            late_replies: counters.late_replies.get(),
            dropped_calls: counters.dropped_calls.get(),
            cancelled_calls: counters.cancelled_calls.get(),
            open_connections: counters.open_connections.get(),
            waiting_calls: counters.waiting_calls.get(),
            unsettled_calls: counters.unsettled_calls.get(),
            body_bytes: wire.budget.used(),
            pinned_output_bytes: counters.pinned_output_bytes.get(),
            panics: counters.panics.get(),
        }
    }
}
