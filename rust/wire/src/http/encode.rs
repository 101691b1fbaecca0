//! Replies as the bytes of HTTP answers, made on the thread that replies.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::answer::error_body;
use crate::call::Request;
use crate::courier::{Courier, Wakes};
use crate::reply::{Failure, Reply, ReplySink, Response};
use crate::slot::Slot;
use crate::status::Code;
use crate::tensor::{self, EncodedResponse};

/// Copying this much costs about as much as one more slice for the kernel to gather.
const MAX_COPIED_BYTES: usize = 8 << 10;

/// An answer whose head is still to be written.
pub struct Encoded {
    /// The code of a failure; None for a response.
    pub failure: Option<Code>,
    /// Bytes of JSON before the binary outputs; None when all outputs are in the JSON.
    pub json_length: Option<usize>,
    pub pieces: VecDeque<Bytes>,
}

impl Encoded {
    fn of(request: &Request, reply: Reply) -> Self {
        match reply {
            Reply::Err(failure) => Self::of_failure(&failure),
            Reply::Ok(response) => Self::of_response(request, &response),
            Reply::End => Self::of_failure(&Failure::no_response(&request.parsed.model_name)),
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        let pieces = [error_body(&failure.message)].into();
        Self { failure: Some(failure.code), json_length: None, pieces }
    }

    fn of_response(request: &Request, response: &Response) -> Self {
        match tensor::encode_response(&request.parsed, response) {
            Ok(encoded) => {
                let json_length = encoded.is_binary().then_some(encoded.json.len());
                Self { failure: None, json_length, pieces: joined(encoded) }
            }
            Err(failure) => Self::of_failure(&failure),
        }
    }
}

/// Short tensors are copied behind the JSON, so that the answer is one piece; long ones stay where they are.
fn joined(encoded: EncodedResponse) -> VecDeque<Bytes> {
    let total = encoded.total_bytes();
    let EncodedResponse { json, tail } = encoded;
    if tail.is_empty() || total - json.len() > MAX_COPIED_BYTES {
        return std::iter::once(json).chain(tail).collect();
    }
    let mut whole = Vec::from(json);
    tail.iter().for_each(|tensor| whole.extend_from_slice(tensor));
    [whole.into()].into()
}

/// Where the one reply of an HTTP call goes.
pub struct Sink {
    pub slot: Arc<Slot<Encoded>>,
    pub courier: Arc<Courier>,
}

impl ReplySink for Sink {
    fn send(&self, request: &Request, reply: Reply, wakes: &mut Wakes) {
        wakes.add(&self.courier, self.slot.fill(Encoded::of(request, reply)));
    }
}
