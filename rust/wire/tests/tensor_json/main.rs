//! Inference requests as JSON.

mod request;
mod support;
mod values;
