//! Everything the wire needs to know, set once at start.

use std::time::Duration;

use bytes::Bytes;

use crate::access;
use crate::forward::HeaderPattern;
use crate::gateway::Gateway;
use crate::http::compress::Effort;
use crate::listener::Listener;
use crate::restrict::Restrictions;
use crate::tls::TlsFiles;

/// Where one front end listens. Without a port it does not; a port of 0 picks a free one. An address `unix:path` or
/// `unix-abstract:name` is that of a Unix socket, for which the port's number means nothing.
#[derive(Clone, Debug)]
pub struct Listen {
    pub address: String,
    pub port: Option<u16>,
    /// `SO_REUSEPORT`: several processes may listen on the same port.
    pub reuse_port: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self { address: "0.0.0.0".to_owned(), port: None, reuse_port: false }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub http: Listen,
    pub grpc: Listen,
    pub metrics: Listen,
    pub sagemaker: Listen,
    pub vertex_ai: Listen,
    pub http_threads: usize,
    pub grpc_threads: usize,
    pub sagemaker_threads: usize,
    pub vertex_ai_threads: usize,
    /// Limit of one HTTP body, after inflating.
    pub http_max_input_bytes: usize,
    pub grpc_max_message_bytes: usize,
    /// Bytes of all bodies that are held at one time.
    pub body_budget_bytes: u64,
    /// How long a body waits for a place in the budget before it is refused.
    pub body_wait_ms: u64,
    pub inbox_max_calls: usize,
    /// Connections of the HTTP and gRPC listeners together; one more takes the place of the one that was idle longest.
    pub max_connections: usize,
    /// How long a connection without a request is kept; 0 for as long as its client wants.
    pub idle_timeout_ms: u64,
    /// How long a client may take for the head of a request, and for the next part of its body.
    pub read_timeout_ms: u64,
    /// How long a peer may refuse to read an answer.
    pub write_timeout_ms: u64,
    /// Names and values of one request's headers, its path included.
    pub max_header_bytes: usize,
    /// HTTP/2 frames that bring no data, between two answers.
    pub http2_max_control_frames: u32,
    /// Calls in flight on one HTTP/2 connection.
    pub http2_max_streams: u32,
    pub request: RequestLimits,
    pub grpc_keepalive: KeepAlive,
    /// When a connection's client is sent to a new one; 0 for never. What is in flight then has the grace, 0 for all time.
    pub grpc_max_connection_age_ms: u64,
    pub grpc_max_connection_age_grace_ms: u64,
    /// How hard answers to inferences are compressed for clients that take them so; None for not at all, but for clients
    /// that compress their requests.
    pub grpc_compression: Option<Effort>,
    /// How much later than they could the unary calls that are no inference are answered, for tests of clients.
    pub grpc_answer_delay_ms: u64,
    /// How each request is recorded; None for not at all.
    pub access: Option<access::Format>,
    pub http_tls: Option<TlsFiles>,
    pub grpc_tls: Option<TlsFiles>,
    pub metrics_tls: Option<TlsFiles>,
    /// Of the HTTP listener, by path, and of the gRPC listener, by method.
    pub http_restrictions: Restrictions,
    pub grpc_restrictions: Restrictions,
    /// Headers that calls bring along, beside what their messages say.
    pub http_forward: Option<HeaderPattern>,
    pub grpc_forward: Option<HeaderPattern>,
    pub server_header: String,
    /// Serialised `FileDescriptorSet` for gRPC reflection; empty for none.
    pub file_descriptor_set: Bytes,
}

/// Where, with how many threads, and under which identity one listener listens.
pub struct Listening<'a> {
    pub place: &'a Listen,
    pub threads: usize,
    pub tls: Option<&'a TlsFiles>,
}

/// How much one inference request may name. Names cost more than their bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Inputs, and requested outputs.
    pub max_tensors: usize,
    /// Parameters of one request, input or output.
    pub max_parameters: usize,
    /// One tensor that is written as JSON.
    pub max_data_bytes: usize,
}

/// gRPC's keep-alive, by its own names.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    /// A peer that is silent this long is asked whether it is there.
    pub time_ms: u64,
    /// How long it has to answer.
    pub timeout_ms: u64,
    /// A client may ask without a call in flight as often as with one; else once in two hours.
    pub permit_without_calls: bool,
    /// A client that asks more often without data in between gets a strike.
    pub min_recv_ping_interval_ms: u64,
    /// A connection with more strikes ends; 0 for any number.
    pub max_ping_strikes: u32,
}

impl Options {
    /// As `request`, where HTTP's limit of a body holds for a tensor too.
    pub fn http_request(&self) -> RequestLimits {
        RequestLimits { max_data_bytes: self.http_max_input_bytes, ..self.request }
    }

    pub fn listen(&self, listener: Listener) -> Listening<'_> {
        let (place, threads, tls) = match listener {
            Listener::Http => (&self.http, self.http_threads, self.http_tls.as_ref()),
            Listener::Grpc => (&self.grpc, self.grpc_threads, self.grpc_tls.as_ref()),
            Listener::Metrics => (&self.metrics, 1, self.metrics_tls.as_ref()),
            Listener::Gateway(Gateway::SageMaker) => (&self.sagemaker, self.sagemaker_threads, None),
            Listener::Gateway(Gateway::VertexAi) => (&self.vertex_ai, self.vertex_ai_threads, None),
        };
        Listening { place, threads, tls }
    }

    pub fn read_timeout(&self) -> Duration {
        Duration::from_millis(self.read_timeout_ms)
    }

    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            http: Listen::default(),
            grpc: Listen::default(),
            metrics: Listen::default(),
            sagemaker: Listen::default(),
            vertex_ai: Listen::default(),
            http_threads: 1,
            grpc_threads: 1,
            sagemaker_threads: 1,
            vertex_ai_threads: 1,
            http_max_input_bytes: 64 << 20,
            grpc_max_message_bytes: i32::MAX as usize,
            body_budget_bytes: 4 << 30,
            body_wait_ms: 5_000,
            inbox_max_calls: 65_536,
            max_connections: 16_384,
            idle_timeout_ms: 3_600_000,
            read_timeout_ms: 60_000,
            write_timeout_ms: 60_000,
            max_header_bytes: 64 << 10,
            http2_max_control_frames: 10_000,
            http2_max_streams: 4096,
            request: RequestLimits::default(),
            grpc_keepalive: KeepAlive::default(),
            grpc_max_connection_age_ms: 0,
            grpc_max_connection_age_grace_ms: 0,
            grpc_compression: None,
            grpc_answer_delay_ms: 0,
            access: None,
            http_tls: None,
            grpc_tls: None,
            metrics_tls: None,
            http_restrictions: Restrictions::default(),
            grpc_restrictions: Restrictions::default(),
            http_forward: None,
            grpc_forward: None,
            server_header: "charonia".to_owned(),
            file_descriptor_set: Bytes::new(),
        }
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { max_tensors: 16_384, max_parameters: 4096, max_data_bytes: 64 << 20 }
    }
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            time_ms: 7_200_000,
            timeout_ms: 20_000,
            permit_without_calls: false,
            min_recv_ping_interval_ms: 300_000,
            max_ping_strikes: 2,
        }
    }
}
