//! `WireOptions`: the wire's options from keyword arguments.

use std::path::PathBuf;

use bytes::Bytes;
use charonia_wire::access::Format;
use charonia_wire::forward::HeaderPattern;
use charonia_wire::http::compress::Effort;
use charonia_wire::options::Options;
use charonia_wire::restrict::Restrictions;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Certificate, key, roots of clients.
type Files = (PathBuf, PathBuf, Option<PathBuf>);

/// Everything the wire needs to know, set once.
#[pyclass(frozen, module = "charonia._wire")]
pub struct WireOptions {
    pub options: Options,
}

#[pymethods]
impl WireOptions {
    #[new]
    #[pyo3(signature = (**settings))]
    fn new(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut options = Options::default();
        for (name, value) in settings.into_iter().flat_map(PyDictMethods::iter) {
            set(&mut options, &name.extract::<String>()?, &value)?;
        }
        Ok(Self { options })
    }
}

/// Each keyword and the setting that it fills; the stub has the same list.
fn set(options: &mut Options, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    macro_rules! fill {
        ($($keyword:literal => $place:expr,)*) => {
            match name {
                $($keyword => $place = value.extract()?,)*
                "access_log" => options.access = made(Format::of_setting(&value.extract::<String>()?))?,
                "http_tls" => options.http_tls = value.extract::<Option<Files>>()?.map(Into::into),
                "grpc_tls" => options.grpc_tls = value.extract::<Option<Files>>()?.map(Into::into),
                "metrics_tls" => options.metrics_tls = value.extract::<Option<Files>>()?.map(Into::into),
                "http_restrictions" => options.http_restrictions = made(Restrictions::of_setting(value.extract()?))?,
                "grpc_restrictions" => options.grpc_restrictions = made(Restrictions::of_setting(value.extract()?))?,
                "http_forward_pattern" => options.http_forward = made(HeaderPattern::of_setting(value.extract()?))?,
                "grpc_forward_pattern" => options.grpc_forward = made(HeaderPattern::of_setting(value.extract()?))?,
                "file_descriptor_set" => options.file_descriptor_set = Bytes::from(value.extract::<Vec<u8>>()?),
                "grpc_compression_level" => options.grpc_compression = Effort::of_level(&value.extract::<String>()?),
                _ => return Err(PyTypeError::new_err(format!("'{name}' is no setting of the wire"))),
            }
        };
    }
    fill! {
        "server_header" => options.server_header,
        "http_address" => options.http.address,
        "http_port" => options.http.port,
        "grpc_address" => options.grpc.address,
        "grpc_port" => options.grpc.port,
        "metrics_address" => options.metrics.address,
        "metrics_port" => options.metrics.port,
        "sagemaker_address" => options.sagemaker.address,
        "sagemaker_port" => options.sagemaker.port,
        "vertex_ai_address" => options.vertex_ai.address,
        "vertex_ai_port" => options.vertex_ai.port,
        "http_threads" => options.http_threads,
        "grpc_threads" => options.grpc_threads,
        "sagemaker_threads" => options.sagemaker_threads,
        "vertex_ai_threads" => options.vertex_ai_threads,
        "reuse_http_port" => options.http.reuse_port,
        "reuse_grpc_port" => options.grpc.reuse_port,
        "http_max_input_bytes" => options.http_max_input_bytes,
        "grpc_max_message_bytes" => options.grpc_max_message_bytes,
        "body_budget_bytes" => options.body_budget_bytes,
        "body_wait_ms" => options.body_wait_ms,
        "inbox_max_calls" => options.inbox_max_calls,
        "max_connections" => options.max_connections,
        "idle_timeout_ms" => options.idle_timeout_ms,
        "read_timeout_ms" => options.read_timeout_ms,
        "write_timeout_ms" => options.write_timeout_ms,
        "max_header_bytes" => options.max_header_bytes,
        "http2_max_control_frames" => options.http2_max_control_frames,
        "http2_max_streams" => options.http2_max_streams,
        "request_max_tensors" => options.request.max_tensors,
        "request_max_parameters" => options.request.max_parameters,
        "grpc_keepalive_time_ms" => options.grpc_keepalive.time_ms,
        "grpc_keepalive_timeout_ms" => options.grpc_keepalive.timeout_ms,
        "grpc_keepalive_permit_without_calls" => options.grpc_keepalive.permit_without_calls,
        "grpc_min_recv_ping_interval_ms" => options.grpc_keepalive.min_recv_ping_interval_ms,
        "grpc_max_ping_strikes" => options.grpc_keepalive.max_ping_strikes,
        "grpc_max_connection_age_ms" => options.grpc_max_connection_age_ms,
        "grpc_answer_delay_ms" => options.grpc_answer_delay_ms,
        "grpc_max_connection_age_grace_ms" => options.grpc_max_connection_age_grace_ms,
    }
    Ok(())
}

/// A value that the wire makes of a setting, or why it can't.
fn made<T>(result: Result<T, String>) -> PyResult<T> {
    result.map_err(PyValueError::new_err)
}
