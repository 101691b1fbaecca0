//! Memory of Python objects: read at once, or lent to the wire until it is sent.

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytes::Bytes;
use charonia_wire::inbox::Inbox;
use charonia_wire::lend::lend;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::InputTensor;

/// Up to this size a copy is cheaper than keeping a Python object alive across threads.
const MAX_COPIED_BYTES: usize = 8 << 10;

/// Copies over this size are made without the GIL.
const LONG_COPY_BYTES: usize = 256 << 10;

/// A C-contiguous view of an object's memory. Releasing it needs the interpreter.
pub struct View(Box<ffi::Py_buffer>);

// SAFETY: the view is only looked at through `slice`, and released while attached.
unsafe impl Send for View {}

impl View {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: attached; `view` is a valid place. On success the buffer is initialised.
        let status = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE) };
        if status != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: initialised by the successful call above.
        Ok(Self(unsafe { view.assume_init() }))
    }

    pub fn slice(&self) -> &[u8] {
        if self.0.len <= 0 || self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: the exporter keeps the memory in place until the view is released.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len.unsigned_abs()) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: attached, and the view is released once.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.0) });
    }
}

/// The bytes of `data`: copied if short or not `owned`, else lent until they are sent.
pub fn take_bytes(data: &Bound<'_, PyAny>, owned: bool, inbox: &Arc<Inbox>) -> PyResult<Bytes> {
    if let Ok(bytes) = data.cast_exact::<PyBytes>() {
        if bytes.as_bytes().len() <= MAX_COPIED_BYTES {
            return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
        }
    } else if let Ok(input) = data.cast_exact::<InputTensor>() {
        // Already the wire's own memory.
        return Ok(input.get().bytes().clone());
    }
    let view = View::of(data)?;
    let slice = view.slice();
    if slice.len() <= MAX_COPIED_BYTES {
        return Ok(Bytes::copy_from_slice(slice));
    }
    if !owned {
        return Ok(match slice.len() > LONG_COPY_BYTES {
            true => data.py().detach(|| Bytes::copy_from_slice(slice)),
            false => Bytes::copy_from_slice(slice),
        });
    }
    let (pointer, len) = (slice.as_ptr(), slice.len());
    // SAFETY: the view keeps the memory in place until it is dropped; `owned` says that nobody writes there.
    Ok(unsafe { lend(pointer, len, Box::new(view), inbox) })
}
