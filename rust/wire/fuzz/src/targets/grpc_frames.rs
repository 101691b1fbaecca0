//! gRPC's framing in a request body that is cut anywhere.
//!
//! The first character says how long the pieces are that the body comes in, '0' for one piece.

use std::sync::{Arc, LazyLock};

use charonia_wire::grpc::frame::MessageReader;
use charonia_wire::options::Options;
use charonia_wire::status::Code;
use charonia_wire::wire::Wire;

use super::measure;
use super::pieces::{wait_for, Pieces};

const MAX_MESSAGE_BYTES: usize = 64;

static WIRE: LazyLock<Arc<Wire>> =
    LazyLock::new(|| Wire::new(Options { grpc_max_message_bytes: MAX_MESSAGE_BYTES, ..Options::default() }));

pub fn run(input: &[u8]) {
    let Some((piece, bytes)) = input.split_first() else { return };
    let body = Pieces::of(bytes, usize::from(piece.wrapping_sub(b'0')), false);
    LazyLock::force(&WIRE);
    let got = measure::bounded(16 * bytes.len(), || wait_for(read(body)));
    assert_eq!(got, expected(bytes));
    assert_eq!(WIRE.budget.used(), 0, "all that was taken was given back");
}

/// The messages, whether they are compressed, and how it ended.
type Read = (Vec<(bool, Vec<u8>)>, Option<Code>);

async fn read(body: Pieces) -> Read {
    let mut reader = MessageReader::new(&WIRE, body);
    let mut messages = Vec::new();
    loop {
        match reader.next(&WIRE).await {
            Ok(Some(received)) => messages.push((received.is_compressed, received.message.to_vec())),
            Ok(None) => return (messages, None),
            Err(failure) => return (messages, Some(failure.code)),
        }
    }
}

fn expected(mut bytes: &[u8]) -> Read {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let Some((&[flag, a, b, c, d], rest)) = bytes.split_first_chunk() else {
            return (messages, Some(Code::INVALID_ARGUMENT));
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if flag > 1 {
            return (messages, Some(Code::INVALID_ARGUMENT));
        }
        if length > MAX_MESSAGE_BYTES {
            return (messages, Some(Code::RESOURCE_EXHAUSTED));
        }
        let Some((message, rest)) = rest.split_at_checked(length) else {
            return (messages, Some(Code::INVALID_ARGUMENT));
        };
        messages.push((flag == 1, message.to_vec()));
        bytes = rest;
    }
    (messages, None)
}
