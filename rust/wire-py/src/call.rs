//! `InferCall` and `InputTensor`: one request as Python sees it. Everything is made when it is asked for.

use std::os::raw::{c_int, c_void};
use std::sync::Arc;

use bytes::Bytes;
use charonia_wire::call::{Call, InputTensor as WireInput, Protocol, Request};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyMemoryView, PyString, PyTuple};

use crate::convert::{header_as_text, headers_as_text, parameters_to_python};
use crate::names::{datatype, pooled};

#[pyclass(frozen, module = "charonia._wire")]
pub struct InferCall {
    pub call: Call,
}

impl InferCall {
    fn request(&self) -> &Arc<Request> {
        &self.call.request
    }
}

#[pymethods]
impl InferCall {
    /// What every request needs, in one crossing: a getter each costs more than the whole tuple.
    fn unpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let request = self.request();
        let parsed = &request.parsed;
        let classes = PyDict::new(py);
        for output in parsed.outputs.iter().filter(|output| output.classification > 0) {
            classes.set_item(pooled(py, &output.name), output.classification)?;
        }
        let inputs = (0..parsed.inputs.len()).map(|index| input_parts(py, request, index));
        let streams = request.protocol == Protocol::GrpcStream;
        let items: [Bound<'py, PyAny>; 15] = [
            request.key.into_pyobject(py)?.into_any(),
            pooled(py, &parsed.model_name).into_any(),
            pooled(py, &parsed.model_version).into_any(),
            PyString::new(py, &parsed.id).into_any(),
            PyList::new(py, inputs.collect::<PyResult<Vec<_>>>()?)?.into_any(),
            PyTuple::new(py, parsed.outputs.iter().map(|output| pooled(py, &output.name)))?.into_any(),
            if classes.is_empty() { py.None().into_bound(py) } else { classes.into_any() },
            parameters_to_python(py, &parsed.parameters)?.map_or_else(|| py.None().into_bound(py), Bound::into_any),
            PyBool::new(py, parsed.raw).to_owned().into_any(),
            request.arrival_ns.into_pyobject(py)?.into_any(),
            request.deadline_ns.into_pyobject(py)?.into_any(),
            request.signature.into_pyobject(py)?.into_any(),
            request.batch_dim.into_pyobject(py)?.into_any(),
            PyBool::new(py, streams).to_owned().into_any(),
            PyBool::new(py, parsed.has_tensor_parameters()).to_owned().into_any(),
        ];
        PyTuple::new(py, items)
    }

    #[getter]
    fn key(&self) -> u64 {
        self.request().key
    }

    #[getter]
    fn protocol<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        pooled(py, self.request().protocol.name())
    }

    #[getter]
    fn model_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        pooled(py, &self.request().parsed.model_name)
    }

    #[getter]
    fn output_parameters<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let all = PyDict::new(py);
        for output in &self.request().parsed.outputs {
            if let Some(parameters) = parameters_to_python(py, &output.parameters)? {
                all.set_item(pooled(py, &output.name), parameters)?;
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    #[getter]
    fn defect(&self) -> Option<(i32, &str)> {
        self.request().parsed.defect.as_ref().map(|defect| (defect.code.0, defect.message.as_str()))
    }

    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        headers_as_text(&self.request().headers)
    }

    fn header(&self, name: &str) -> Option<String> {
        self.request().headers.get(name).map(header_as_text)
    }

    #[getter]
    fn begun_ns(&self) -> u64 {
        self.request().begun_ns
    }

    #[getter]
    fn arrival_ns(&self) -> u64 {
        self.request().arrival_ns
    }

    fn watch(&self) -> bool {
        self.call.watch()
    }

    #[getter]
    fn sent(&self) -> Option<(u64, u64)> {
        self.call.sent()
    }

    #[getter]
    fn forwarded(&self) -> Vec<(String, String)> {
        self.request().parsed.forwarded.clone()
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    #[getter]
    fn has_room(&self) -> bool {
        self.call.has_room()
    }
}

/// (name, datatype, shape, the input itself).
fn input_parts<'py>(py: Python<'py>, request: &Arc<Request>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
    let input = &request.parsed.inputs[index];
    let tensor = Bound::new(py, InputTensor { request: Arc::clone(request), index })?;
    let items: [Bound<'py, PyAny>; 4] = [
        pooled(py, &input.name).into_any(),
        datatype(py, input.datatype).into_any(),
        PyTuple::new(py, &input.shape)?.into_any(),
        tensor.into_any(),
    ];
    PyTuple::new(py, items)
}

/// One input, read-only. Keeps the whole request's bytes alive, and nothing else of the call.
#[pyclass(frozen, module = "charonia._wire")]
pub struct InputTensor {
    request: Arc<Request>,
    index: usize,
}

impl InputTensor {
    fn input(&self) -> &WireInput {
        &self.request.parsed.inputs[self.index]
    }

    pub fn bytes(&self) -> &Bytes {
        &self.input().data
    }
}

#[pymethods]
impl InputTensor {
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes().len()
    }

    #[getter]
    #[allow(clippy::unused_self)] // A property of every input, and Python asks the object.
    fn device<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        pooled(py, "cpu")
    }

    #[getter]
    #[allow(clippy::unused_self)] // A property of every input, and Python asks the object.
    fn owned(&self) -> bool {
        true
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        parameters_to_python(py, &self.input().parameters)
    }

    fn host(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// What `memoryview` asks for from Python 3.12 on, under the name that it has there.
    #[pyo3(signature = (flags, /))]
    fn __buffer__<'py>(slf: &Bound<'py, Self>, flags: c_int) -> PyResult<Bound<'py, PyMemoryView>> {
        let _ = flags;
        PyMemoryView::from(slf.as_any())
    }

    /// # Safety
    /// Called by the interpreter, with a view that is ours to fill.
    #[allow(clippy::needless_pass_by_value)] // The shape that the slot has.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = slf.get().bytes();
        let len = isize::try_from(bytes.len()).map_err(|error| PyBufferError::new_err(error.to_string()))?;
        let pointer = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the view holds a reference to this object, which holds the bytes; they are marked read-only.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, len, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
