//! Replies from Python's tuples to the wire's records.

use std::sync::Arc;

use bytes::Bytes;
use charonia_wire::datatype::DataType;
use charonia_wire::inbox::Inbox;
use charonia_wire::reply::{Failure, OutputTensor, Reply, Response};
use charonia_wire::status::Code;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::buffer::take_bytes;
use crate::call::InferCall;
use crate::convert::parameters_from_python;

/// A call and what to answer it. The object is kept, so that the call outlives the answer.
pub type Answered = (Py<InferCall>, Reply);

/// What `each` makes of the items of a list, a tuple or any other sequence.
pub fn collect<T>(
    sequence: &Bound<'_, PyAny>,
    mut each: impl FnMut(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    if let Ok(tuple) = sequence.cast_exact::<PyTuple>() {
        tuple.iter().map(|item| each(&item)).collect()
    } else if let Ok(list) = sequence.cast_exact::<PyList>() {
        list.iter().map(|item| each(&item)).collect()
    } else {
        sequence.try_iter()?.map(|item| each(&item?)).collect()
    }
}

/// `(call, model name, model version, outputs, parameters, final)`; without outputs it is the bare end.
pub fn reply(item: &Bound<'_, PyAny>, inbox: &Arc<Inbox>) -> PyResult<Answered> {
    let fields = tuple_of(item, 6, "a reply")?;
    let call = fields.get_item(0)?.cast_into_exact::<InferCall>()?;
    let given = fields.get_item(3)?;
    if given.is_none() {
        return Ok((call.unbind(), Reply::End));
    }
    let response = Response {
        model_name: text(&fields.get_item(1)?)?,
        model_version: text(&fields.get_item(2)?)?,
        parameters: parameters_from_python(&fields.get_item(4)?)?,
        outputs: collect(&given, |item| output(item, inbox))?,
        is_final: fields.get_item(5)?.is_truthy()?,
    };
    Ok((call.unbind(), Reply::Ok(response)))
}

/// `(call, code, message)` of a request that was refused, or `(call, code, message, of the inference, final)`.
pub fn failure(item: &Bound<'_, PyAny>) -> PyResult<Answered> {
    let short = item.len()? == 3;
    let fields = tuple_of(item, if short { 3 } else { 5 }, "a failure")?;
    let call = fields.get_item(0)?.cast_into_exact::<InferCall>()?;
    let mut failure = Failure::new(Code(fields.get_item(1)?.extract()?), text(&fields.get_item(2)?)?);
    if !short {
        failure.of_inference = fields.get_item(3)?.is_truthy()?;
        failure.is_final = fields.get_item(4)?.is_truthy()?;
    }
    Ok((call.unbind(), Reply::Err(failure)))
}

/// `(name, datatype, shape, data, owned)`; data None: it lies in shared memory already.
fn output(item: &Bound<'_, PyAny>, inbox: &Arc<Inbox>) -> PyResult<OutputTensor> {
    let fields = tuple_of(item, 5, "an output")?;
    let datatype = fields.get_item(1)?.cast_into::<PyString>()?;
    let datatype = datatype.to_cow()?;
    let data = fields.get_item(3)?;
    let is_elsewhere = data.is_none();
    let unknown = || PyValueError::new_err(format!("an output has unknown datatype '{datatype}'"));
    Ok(OutputTensor {
        name: text(&fields.get_item(0)?)?,
        datatype: DataType::from_name(&datatype).ok_or_else(unknown)?,
        shape: collect(&fields.get_item(2)?, |dim| dim.extract())?,
        data: match is_elsewhere {
            true => Bytes::new(),
            false => take_bytes(&data, fields.get_item(4)?.is_truthy()?, inbox)?,
        },
        is_elsewhere,
    })
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.cast::<PyString>()?.to_cow()?.into_owned())
}

fn tuple_of<'a, 'py>(item: &'a Bound<'py, PyAny>, len: usize, what: &str) -> PyResult<&'a Bound<'py, PyTuple>> {
    let tuple = item.cast::<PyTuple>()?;
    match tuple.len() {
        found if found == len => Ok(tuple),
        found => Err(PyTypeError::new_err(format!("{what} is a tuple of {len} items, got {found}"))),
    }
}
