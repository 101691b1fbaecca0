//! Bytes to tensors and back: pure functions, no sockets, no Python.
//!
//! Requests: [`decode_request`] (JSON header and binary tail) and [`decode_raw_request`] make a
//! [`ParsedCall`](crate::call::ParsedCall); they never fail, what is wrong is its `defect`. gRPC uses [`check`]
//! and [`aligned`] alone.
//!
//! Answers: [`encode_response`] makes the JSON header and hands the binary outputs through as they are.

mod data;
mod decimal;
mod input;
mod json_scan;
mod json_string;
mod json_write;
mod number;
pub mod parameters;
mod plain;
mod request;
mod response;

pub mod aligned;
pub mod check;
pub mod known;

pub use request::{decode_raw_request, decode_request, too_many_tensors};
pub use response::{check_output, encode_response, EncodedResponse};
