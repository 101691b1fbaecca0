//! Python strings made once for names that come with every request: dict look-ups with them are look-ups by identity.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use charonia_wire::datatype::DataType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// Clients choose names, so what is kept of them is bounded; servers have fewer names than this.
const MAX_NAMES: usize = 4096;
const MAX_NAME_BYTES: usize = 256;

/// The pool of one extension module. Names are equal in every server, so it may be shared by all.
static POOL: PyOnceLock<Mutex<HashMap<String, Py<PyString>>>> = PyOnceLock::new();

/// `name` as a Python string, mostly the same object as last time.
pub fn pooled<'py>(py: Python<'py>, name: &str) -> Bound<'py, PyString> {
    let pool = POOL.get_or_init(py, Mutex::default);
    let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = pool.get(name) {
        return known.bind(py).clone();
    }
    // Interned strings may live as long as the process, so only what is kept anyway is interned.
    if pool.len() >= MAX_NAMES || name.len() > MAX_NAME_BYTES {
        return PyString::new(py, name);
    }
    let made = PyString::intern(py, name);
    pool.insert(name.to_owned(), made.clone().unbind());
    made
}

pub fn datatype(py: Python<'_>, datatype: DataType) -> Bound<'_, PyString> {
    pooled(py, datatype.name())
}
