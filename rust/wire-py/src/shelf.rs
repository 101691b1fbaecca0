//! `AnswerShelf` and `KeptAnswer`: what the wire answers by itself.

use std::sync::Arc;

use charonia_wire::shelf::{Kept, Shelf};
use pyo3::prelude::*;

#[pyclass(frozen, module = "charonia._wire")]
pub struct AnswerShelf {
    pub shelf: Arc<Shelf>,
}

#[pymethods]
impl AnswerShelf {
    #[new]
    fn new() -> Self {
        Self { shelf: Arc::default() }
    }

    fn take_given(&self) -> Vec<(u64, u64, u64)> {
        self.shelf.take_given().into_iter().map(|given| (given.count, given.total_ns, given.lookup_ns)).collect()
    }
}

#[pyclass(frozen, module = "charonia._wire")]
pub struct KeptAnswer {
    pub kept: Kept,
}

#[pymethods]
impl KeptAnswer {
    fn take_used(&self) -> bool {
        self.kept.take_used()
    }
}
