//! Parameters and headers between Rust and Python.

use charonia_wire::call::{Parameter, Parameters};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::names::pooled;

/// A dict, or None for no parameters.
pub fn parameters_to_python<'py>(py: Python<'py>, parameters: &Parameters) -> PyResult<Option<Bound<'py, PyDict>>> {
    if parameters.is_empty() {
        return Ok(None);
    }
    let dict = PyDict::new(py);
    for (name, value) in parameters {
        let name = pooled(py, name);
        match value {
            Parameter::Bool(value) => dict.set_item(name, value)?,
            Parameter::Int(value) => dict.set_item(name, value)?,
            Parameter::Uint(value) => dict.set_item(name, value)?,
            Parameter::Double(value) => dict.set_item(name, value)?,
            Parameter::String(value) => dict.set_item(name, value)?,
        }
    }
    Ok(Some(dict))
}

/// From a mapping or None.
pub fn parameters_from_python(mapping: &Bound<'_, PyAny>) -> PyResult<Parameters> {
    if mapping.is_none() {
        return Ok(Parameters::new());
    }
    let dict = match mapping.cast_exact::<PyDict>() {
        Ok(dict) => dict.clone(),
        Err(_) => mapping.py().get_type::<PyDict>().call1((mapping,))?.cast_into()?,
    };
    dict.iter().map(|(name, value)| Ok((name.extract()?, parameter(&value)?))).collect()
}

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    // bool first: it is an int too.
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Parameter::Bool(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract() {
            Ok(value) => Ok(Parameter::Int(value)),
            Err(_) => value.extract().map(Parameter::Uint),
        };
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        return Ok(Parameter::Double(value.value()));
    }
    if let Ok(value) = value.cast::<PyString>() {
        return Ok(Parameter::String(value.to_cow()?.into_owned()));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("a parameter must be bool, int, float or str, got {kind}")))
}

/// Names and values.
pub fn headers_as_text(headers: &http::HeaderMap) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), header_as_text(value))).collect()
}

pub fn header_as_text(value: &http::HeaderValue) -> String {
    charonia_wire::forward::text(value.as_bytes())
}
