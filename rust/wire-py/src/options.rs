//! `WireOptions`: the wire's options from keyword arguments.

use bytes::Bytes;
use charonia_wire::options::{Listen, Options};
use pyo3::prelude::*;

/// Everything the wire needs to know, set once.
#[pyclass(frozen, module = "charonia._wire")]
pub struct WireOptions {
    pub options: Options,
}

#[pymethods]
impl WireOptions {
    #[new]
    #[pyo3(signature = (
        *,
        http_address = "0.0.0.0".to_owned(),
        http_port = Some(8000),
        grpc_address = "0.0.0.0".to_owned(),
        grpc_port = Some(8001),
        metrics_address = "0.0.0.0".to_owned(),
        metrics_port = Some(8002),
        http_threads = 1,
        grpc_threads = 1,
        reuse_http_port = false,
        reuse_grpc_port = false,
        http_max_input_bytes = 67_108_864,
        grpc_max_message_bytes = 2_147_483_647,
        body_budget_bytes = 4_294_967_296,
        body_wait_ms = 5_000,
        inbox_max_calls = 65_536,
        write_timeout_ms = 60_000,
        server_header = "charonia".to_owned(),
        file_descriptor_set = Vec::new(),
    ))]
    #[pyo3(text_signature = "(*, http_address='0.0.0.0', http_port=8000, grpc_address='0.0.0.0', grpc_port=8001, \
        metrics_address='0.0.0.0', metrics_port=8002, http_threads=1, grpc_threads=1, reuse_http_port=False, \
        reuse_grpc_port=False, http_max_input_bytes=67108864, grpc_max_message_bytes=2147483647, \
        body_budget_bytes=4294967296, body_wait_ms=5000, inbox_max_calls=65536, write_timeout_ms=60000, \
        server_header='charonia', file_descriptor_set=b'')")]
    // One keyword per setting; Python callers never see them by position.
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
    fn new(
        http_address: String,
        http_port: Option<u16>,
        grpc_address: String,
        grpc_port: Option<u16>,
        metrics_address: String,
        metrics_port: Option<u16>,
        http_threads: usize,
        grpc_threads: usize,
        reuse_http_port: bool,
        reuse_grpc_port: bool,
        http_max_input_bytes: usize,
        grpc_max_message_bytes: usize,
        body_budget_bytes: u64,
        body_wait_ms: u64,
        inbox_max_calls: usize,
        write_timeout_ms: u64,
        server_header: String,
        file_descriptor_set: Vec<u8>,
    ) -> Self {
        let listen = |address, port: Option<u16>, reuse_port| port.map(|port| Listen { address, port, reuse_port });
        let options = Options {
            http: listen(http_address, http_port, reuse_http_port),
            grpc: listen(grpc_address, grpc_port, reuse_grpc_port),
            metrics: listen(metrics_address, metrics_port, false),
            http_threads,
            grpc_threads,
            http_max_input_bytes,
            grpc_max_message_bytes,
            body_budget_bytes,
            body_wait_ms,
            inbox_max_calls,
            write_timeout_ms,
            server_header,
            file_descriptor_set: Bytes::from(file_descriptor_set),
        };
        Self { options }
    }
}
