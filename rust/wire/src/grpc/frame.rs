//! gRPC's framing of messages in a request body: a flag byte, a length in four bytes, the message.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;

use super::compression;
use crate::budget::Permit;
use crate::http::compress::Coding;
use crate::reply::Failure;
use crate::status::Code;
use crate::wire::Wire;

/// Flag and length before each message.
pub const PREFIX_BYTES: usize = 5;

/// No more than this is reserved on a client's word alone; beyond it the buffer grows with what really comes.
const MAX_TRUSTED_RESERVE: usize = 1 << 20;

/// Reads one message after another from a request body. A message that came in one piece is not copied.
pub struct MessageReader {
    body: Incoming,
    limit_bytes: usize,
    /// What was received and not handed out yet, when it is one piece.
    piece: Bytes,
    /// The same, when it had to be joined.
    joined: BytesMut,
    ended: bool,
}

/// One message as it was sent, and the bytes of the budget that it holds.
pub struct Received {
    pub message: Bytes,
    pub is_compressed: bool,
    pub permit: Permit,
}

impl MessageReader {
    pub fn new(wire: &Wire, body: Incoming) -> Self {
        let limit_bytes = wire.options.grpc_max_message_bytes;
        Self { body, limit_bytes, piece: Bytes::new(), joined: BytesMut::new(), ended: false }
    }

    /// The message of a unary call.
    pub async fn one(&mut self, wire: &Wire) -> Result<Received, Failure> {
        self.next(wire).await?.ok_or_else(|| invalid("the request has no message".to_owned()))
    }

    /// The next message, None at the end of the body.
    ///
    /// Fails with `RESOURCE_EXHAUSTED` for a message over the limit, `UNAVAILABLE` when the server holds too many bytes
    /// already, `INVALID_ARGUMENT` for broken framing and `CANCELLED` when the client has gone.
    pub async fn next(&mut self, wire: &Wire) -> Result<Option<Received>, Failure> {
        if !self.fill(PREFIX_BYTES).await? {
            return match self.available() {
                0 => Ok(None),
                got => {
                    Err(invalid(format!("the request ended after {got} of {PREFIX_BYTES} bytes of a message's prefix")))
                }
            };
        }
        let (flag, length) = self.prefix();
        if flag > 1 {
            return Err(invalid(format!("a message's prefix has the flag {flag}, expected 0 or 1")));
        }
        if length > self.limit_bytes {
            return Err(too_large(length, self.limit_bytes));
        }
        let mut permit = Permit::empty(&wire.budget);
        if !permit.grow(length).await {
            return Err(over_budget());
        }
        if !self.fill(PREFIX_BYTES + length).await? {
            let got = self.available() - PREFIX_BYTES;
            return Err(invalid(format!("the request ended after {got} of {length} bytes of a message")));
        }
        let mut message = self.take(PREFIX_BYTES + length);
        message.advance(PREFIX_BYTES);
        Ok(Some(Received { message, is_compressed: flag == 1, permit }))
    }

    fn available(&self) -> usize {
        self.piece.len() + self.joined.len()
    }

    /// Read until `wanted` bytes are there; false if the body ends before.
    async fn fill(&mut self, wanted: usize) -> Result<bool, Failure> {
        while self.available() < wanted {
            if self.ended {
                return Ok(false);
            }
            match poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
                None => self.ended = true,
                Some(Err(error)) => return Err(cut_off(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.append(data, wanted);
                    }
                }
            }
        }
        Ok(true)
    }

    fn append(&mut self, data: Bytes, wanted: usize) {
        if self.available() == 0 {
            self.piece = data;
            return;
        }
        if !self.piece.is_empty() {
            let piece = std::mem::take(&mut self.piece);
            self.joined.reserve(wanted.min(piece.len() + data.len() + MAX_TRUSTED_RESERVE));
            self.joined.extend_from_slice(&piece);
        }
        self.joined.extend_from_slice(&data);
    }

    fn prefix(&self) -> (u8, usize) {
        let source = if self.piece.is_empty() { &self.joined[..] } else { &self.piece[..] };
        let length = u32::from_be_bytes([source[1], source[2], source[3], source[4]]);
        (source[0], length as usize)
    }

    fn take(&mut self, bytes: usize) -> Bytes {
        if self.piece.is_empty() {
            self.joined.split_to(bytes).freeze()
        } else {
            self.piece.split_to(bytes)
        }
    }
}

impl Received {
    /// The plain message. What it grew by is counted in the budget too.
    pub async fn inflated(self, coding: Option<Coding>, wire: &Wire) -> Result<(Bytes, Permit), Failure> {
        let Self { message, is_compressed, mut permit } = self;
        if !is_compressed {
            return Ok((message, permit));
        }
        let inflated = compression::inflate(coding, message, wire.options.grpc_max_message_bytes).await?;
        if permit.grow(inflated.len()).await {
            Ok((inflated, permit))
        } else {
            Err(over_budget())
        }
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(Code::INVALID_ARGUMENT, message)
}

#[cold]
fn too_large(length: usize, limit: usize) -> Failure {
    let message = format!("received message of {length} bytes is larger than max ({length} vs. {limit})");
    Failure::new(Code::RESOURCE_EXHAUSTED, message)
}

#[cold]
fn over_budget() -> Failure {
    Failure::new(Code::UNAVAILABLE, "the server holds as many bytes of requests as it may; try again later")
}

#[cold]
fn cut_off(error: &hyper::Error) -> Failure {
    Failure::new(Code::CANCELLED, format!("the request could not be read: {error}"))
}
