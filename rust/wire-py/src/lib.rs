//! The extension module `charonia._wire`: translation only; the stub `_wire.pyi` says what everything means.

use charonia_wire::datatype::DataType;
use charonia_wire::status::Code;
use charonia_wire::tensor::check::tensor_bytes;
use pyo3::prelude::*;

use crate::buffer::View;

mod buffer;
mod call;
mod control;
mod convert;
mod counters;
mod names;
mod options;
mod reply;
mod server;
mod shelf;

/// The HTTP status for a canonical status code.
#[pyfunction]
fn http_status(code: i32) -> u16 {
    Code(code).http_status()
}

/// What is wrong with the bytes of a BYTES input that did not come through the wire; None for nothing.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // Extracted from Python objects.
fn bytes_fault(model: &str, input: &str, shape: Vec<i64>, data: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let view = View::of(data)?;
    let slice = view.slice();
    let fault = data.py().detach(|| tensor_bytes(model, input, DataType::Bytes, &shape, slice).err());
    Ok(fault.map(|failure| failure.message))
}

/// The clock of arrival stamps; the same as `time.monotonic_ns()`.
#[pyfunction]
fn monotonic_ns() -> u64 {
    charonia_wire::wire::monotonic_ns()
}

#[pymodule]
mod _wire {
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    /// The stub's aliases for tuples exist at run time too, so that they can be imported.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for alias in ["CallParts", "InputParts", "Output", "Reply"] {
            module.add(alias, module.py().get_type::<PyTuple>())?;
        }
        // The stub is the list of names.
        module.delattr("__all__")
    }

    #[pymodule_export]
    use super::call::{InferCall, InputTensor};
    #[pymodule_export]
    use super::control::{HttpCall, RpcCall};
    #[pymodule_export]
    use super::counters::Counters;
    #[pymodule_export]
    use super::options::WireOptions;
    #[pymodule_export]
    use super::server::WireServer;
    #[pymodule_export]
    use super::shelf::{AnswerShelf, KeptAnswer};
    #[pymodule_export]
    use super::{bytes_fault, http_status, monotonic_ns};
}
