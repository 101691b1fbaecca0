//! Everything the wire needs to know, set once at start.

use bytes::Bytes;

/// Where one front end listens. A port of 0 picks a free one.
#[derive(Clone, Debug)]
pub struct Listen {
    pub address: String,
    pub port: u16,
    /// `SO_REUSEPORT`: several processes may listen on the same port.
    pub reuse_port: bool,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub http: Option<Listen>,
    pub grpc: Option<Listen>,
    pub metrics: Option<Listen>,
    pub http_threads: usize,
    pub grpc_threads: usize,
    /// Limit of one HTTP body, after inflating.
    pub http_max_input_bytes: usize,
    pub grpc_max_message_bytes: usize,
    /// Bytes of all bodies that are held at one time.
    pub body_budget_bytes: u64,
    /// How long a body waits for a place in the budget before it is refused.
    pub body_wait_ms: u64,
    pub inbox_max_calls: usize,
    /// How long a peer may refuse to read an answer.
    pub write_timeout_ms: u64,
    pub server_header: String,
    /// Serialised `FileDescriptorSet` for gRPC reflection; empty for none.
    pub file_descriptor_set: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            http: None,
            grpc: None,
            metrics: None,
            http_threads: 1,
            grpc_threads: 1,
            http_max_input_bytes: 64 << 20,
            grpc_max_message_bytes: i32::MAX as usize,
            body_budget_bytes: 4 << 30,
            body_wait_ms: 5_000,
            inbox_max_calls: 65_536,
            write_timeout_ms: 60_000,
            server_header: "charonia".to_owned(),
            file_descriptor_set: Bytes::new(),
        }
    }
}
