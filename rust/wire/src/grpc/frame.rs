//! gRPC's framing of messages in a request body: a flag byte, a length in four bytes, the message.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::compression;
use crate::access::Incoming;
use crate::budget::Permit;
use crate::http::body::MAX_TRUSTED_BYTES;
use crate::http::compress::Coding;
use crate::http::pool::Buffer;
use crate::pace::Pace;
use crate::reply::Failure;
use crate::status::Code;
use crate::tensor::check::invalid;
use crate::wire::Wire;

/// Flag and length before each message.
pub const PREFIX_BYTES: usize = 5;

/// Reads one message after another from a request body. A message that came in one piece is not copied.
///
/// All that was read is kept here, so a read that is given up may be begun again.
pub struct MessageReader<B = Incoming> {
    body: B,
    limit_bytes: usize,
    pace: Pace,
    /// Whether the client may take its time between messages.
    may_rest: bool,
    /// What was received and not used yet.
    piece: Bytes,
    prefix: [u8; PREFIX_BYTES],
    prefix_filled: usize,
    current: Option<Current>,
}

/// A message whose prefix was read.
struct Current {
    length: usize,
    is_compressed: bool,
    permit: Permit,
    /// Where its pieces are joined, when it comes in several.
    joined: Option<Buffer>,
}

/// One message as it was sent, and the bytes of the budget that it holds.
pub struct Received {
    pub message: Bytes,
    pub is_compressed: bool,
    pub permit: Permit,
}

impl<B> MessageReader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    pub fn new(wire: &Wire, body: B) -> Self {
        Self {
            body,
            limit_bytes: wire.options.grpc_max_message_bytes,
            pace: Pace::new(wire.options.read_timeout()),
            may_rest: true,
            piece: Bytes::new(),
            prefix: [0; PREFIX_BYTES],
            prefix_filled: 0,
            current: None,
        }
    }

    /// The message of a unary call. It should come soon, from its begin.
    pub async fn one(&mut self, wire: &Wire) -> Result<Received, Failure> {
        self.may_rest = false;
        self.next(wire).await?.ok_or_else(|| invalid("the request has no message"))
    }

    /// The next message, None at the end of the body.
    ///
    /// Fails with `RESOURCE_EXHAUSTED` for a message over the limit, `UNAVAILABLE` when the server holds too many bytes
    /// already, `INVALID_ARGUMENT` for broken framing and `CANCELLED` when the client has gone.
    pub async fn next(&mut self, wire: &Wire) -> Result<Option<Received>, Failure> {
        if self.current.is_none() {
            if !self.read_prefix().await? {
                return Ok(None);
            }
            self.current = Some(self.admit(wire)?);
            self.prefix_filled = 0;
        }
        let message = self.read_message(wire).await?;
        let received = self.current.take().map(|Current { is_compressed, permit, .. }| Received {
            message,
            is_compressed,
            permit,
        });
        Ok(received)
    }

    /// False at the end of the body.
    async fn read_prefix(&mut self) -> Result<bool, Failure> {
        while self.prefix_filled < PREFIX_BYTES {
            if self.piece.is_empty() && !self.pull().await? {
                return match self.prefix_filled {
                    0 => Ok(false),
                    got => Err(ended_early(got, PREFIX_BYTES, "a message's prefix")),
                };
            }
            let part = self.piece.split_to(self.piece.len().min(PREFIX_BYTES - self.prefix_filled));
            self.prefix[self.prefix_filled..][..part.len()].copy_from_slice(&part);
            self.prefix_filled += part.len();
        }
        Ok(true)
    }

    /// What the prefix announces, if it is allowed. It counts in the budget only as it comes: announcing costs nothing.
    fn admit(&self, wire: &Wire) -> Result<Current, Failure> {
        let [flag, length @ ..] = self.prefix;
        let length = u32::from_be_bytes(length) as usize;
        if flag > 1 {
            return Err(invalid(format!("a message's prefix has the flag {flag}, expected 0 or 1")));
        }
        if length > self.limit_bytes {
            return Err(too_large(length, self.limit_bytes));
        }
        let permit = Permit::empty(&wire.budget);
        Ok(Current { length, is_compressed: flag == 1, permit, joined: None })
    }

    async fn read_message(&mut self, wire: &Wire) -> Result<Bytes, Failure> {
        loop {
            let Some(Current { length, joined, permit, .. }) = &mut self.current else { return Ok(Bytes::new()) };
            let filled = joined.as_ref().map_or(0, Buffer::filled);
            if !permit.cover((filled + self.piece.len()).min(*length)).await {
                return Err(over_budget());
            }
            if joined.is_none() && self.piece.len() >= *length {
                return Ok(self.piece.split_to(*length));
            }
            if !self.piece.is_empty() {
                let part = self.piece.split_to(self.piece.len().min(*length - filled));
                // A large raw tensor is the last thing in its message, so aligned ends make for aligned tensors.
                let buffer = || wire.bodies.buffer((*length).min(MAX_TRUSTED_BYTES), *length);
                joined.get_or_insert_with(buffer).extend(&part);
            }
            if let Some(whole) = joined.take_if(|joined| joined.filled() == *length) {
                return Ok(whole.freeze());
            }
            let (length, filled) = (*length, joined.as_ref().map_or(0, Buffer::filled));
            if self.piece.is_empty() && !self.pull().await? {
                return Err(ended_early(filled, length, "a message"));
            }
        }
    }

    /// Receive the next piece; false when there is none.
    async fn pull(&mut self) -> Result<bool, Failure> {
        loop {
            match poll_fn(|context| self.poll_frame(context)).await {
                None => return Ok(false),
                Some(Err(failure)) => return Err(failure),
                Some(Ok(frame)) => {
                    if let Some(piece) = frame.into_data().ok().filter(|piece| !piece.is_empty()) {
                        self.pace.came(piece.len());
                        self.piece = piece;
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(|error| cut_off(&error)))),
            Poll::Pending if self.may_rest && self.prefix_filled == 0 && self.current.is_none() => {
                self.pace.rest();
                Poll::Pending
            }
            Poll::Pending => self.pace.poll_late(context).map(|()| Some(Err(too_slow()))),
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

#[cold]
fn ended_early(got: usize, expected: usize, what: &str) -> Failure {
    invalid(format!("the request ended after {got} of {expected} bytes of {what}"))
}

#[cold]
fn too_large(length: usize, limit: usize) -> Failure {
    let message = format!("received message of {length} bytes is larger than max ({length} vs. {limit}). Use --grpc-max-message-size to increase the limit.");
    Failure::new(Code::RESOURCE_EXHAUSTED, message)
}

#[cold]
fn too_slow() -> Failure {
    let message = "the message comes too slowly. Use --read-timeout-secs to give it more time.";
    Failure::new(Code::DEADLINE_EXCEEDED, message)
}

#[cold]
pub fn over_budget() -> Failure {
    let message = "the server holds as many bytes of requests as it may (--request-memory-limit); try again later";
    Failure::new(Code::UNAVAILABLE, message)
}

#[cold]
fn cut_off(error: &impl Display) -> Failure {
    Failure::new(Code::CANCELLED, format!("the request could not be read: {error}"))
}
