//! `HttpCall` and `RpcCall`: requests that Python answers with bytes.

use bytes::Bytes;
use charonia_wire::answer_parts::Head;
use charonia_wire::control::{HttpCall as WireHttpCall, RpcCall as WireRpcCall};
use charonia_wire::reply::Failure;
use charonia_wire::status::Code;
use http::Version;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::{header_as_text, headers_as_text};

#[pyclass(frozen, module = "charonia._wire")]
pub struct HttpCall {
    pub call: WireHttpCall,
}

#[pymethods]
impl HttpCall {
    #[getter]
    fn key(&self) -> u64 {
        self.call.key
    }

    #[getter]
    fn begun_ns(&self) -> u64 {
        self.call.begun_ns
    }

    #[getter]
    fn arrival_ns(&self) -> u64 {
        self.call.arrival_ns
    }

    fn header(&self, name: &str) -> Option<String> {
        self.call.headers.get(name).map(header_as_text)
    }

    #[getter]
    fn listener(&self) -> &'static str {
        self.call.listener.name()
    }

    #[getter]
    fn method(&self) -> &str {
        self.call.method.as_str()
    }

    #[getter]
    fn path(&self) -> &str {
        &self.call.path
    }

    #[getter]
    fn query(&self) -> &str {
        &self.call.query
    }

    #[getter]
    fn http_version(&self) -> &'static str {
        match self.call.version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        }
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let bytes = |value: &[u8]| PyBytes::new(py, value);
        self.call.headers.iter().map(|(name, value)| (bytes(name.as_ref()), bytes(value.as_bytes()))).collect()
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.call.body)
    }

    #[getter]
    fn client(&self) -> Option<(String, u16)> {
        self.call.client.map(|client| (client.ip().to_string(), client.port()))
    }

    #[getter]
    fn secure(&self) -> bool {
        self.call.secure
    }

    #[getter]
    fn forwarded(&self) -> Vec<(String, String)> {
        self.call.forwarded.clone()
    }

    #[getter]
    fn is_disconnected(&self) -> bool {
        self.call.answer.is_closed()
    }

    #[getter]
    fn has_room(&self) -> bool {
        self.call.answer.has_room()
    }

    fn start(&self, status: u16, headers: Vec<(Vec<u8>, Vec<u8>)>) -> PyResult<()> {
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let started = self.call.answer.start(Head { status, headers });
        started.map(|_| ()).map_err(|_| self.out_of_turn("a head"))
    }

    fn write(&self, chunk: &[u8], more: bool) -> PyResult<bool> {
        let written = self.call.answer.write(Bytes::copy_from_slice(chunk), more);
        written.map_err(|_| self.out_of_turn("a piece of the body"))
    }
}

impl HttpCall {
    fn out_of_turn(&self, what: &str) -> PyErr {
        let message = format!("{what} out of turn in the answer to {} {}", self.call.method, self.call.path);
        PyRuntimeError::new_err(message)
    }
}

#[pyclass(frozen, module = "charonia._wire")]
pub struct RpcCall {
    pub call: WireRpcCall,
}

#[pymethods]
impl RpcCall {
    #[getter]
    fn path(&self) -> &str {
        &self.call.path
    }

    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.call.message)
    }

    #[getter]
    fn metadata(&self) -> Vec<(String, String)> {
        headers_as_text(&self.call.metadata)
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    fn reply(&self, message: &[u8]) {
        self.call.answer(Ok(Bytes::copy_from_slice(message)));
    }

    fn fail(&self, code: i32, message: String) {
        self.call.answer(Err(Failure::new(Code(code), message)));
    }
}
