//! What goes back to a gRPC client: messages and trailers, or trailers only.

use std::collections::VecDeque;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};

use super::compression::ACCEPTED;
use super::encode::Framed;
use crate::connections::Unanswered;
use crate::http::compress::Coding;
use crate::reply::Failure;
use crate::watch::{Watched, Witness};

/// Clients refuse headers of more than 8 KiB in all; a longer message is cut.
const MAX_MESSAGE_BYTES: usize = 6 << 10;

pub type Answer = Response<AnswerBody>;
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

pub enum AnswerBody {
    /// Everything is in the head.
    Empty,
    /// One message and the trailers of success.
    Message(VecDeque<Bytes>),
    /// The trailers have been sent.
    Ended,
    /// Messages as they come; the call has no answer until they have ended.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>, Option<Unanswered>),
    /// Any of these, with somebody who looks on.
    Watched(Box<Watched<Self>>),
}

impl AnswerBody {
    pub fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(..))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty | Self::Ended => Poll::Ready(None),
            Self::Stream(body, _) => body.as_mut().poll_frame(context),
            Self::Watched(watched) => Pin::new(watched.as_mut()).poll_frame(context),
            Self::Message(chunks) => {
                if let Some(chunk) = chunks.pop_front() {
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                *self = Self::Ended;
                Poll::Ready(Some(Ok(Frame::trailers(ok_trailers()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty | Self::Ended => true,
            Self::Message(_) => false,
            Self::Stream(body, _) => body.is_end_stream(),
            Self::Watched(watched) => watched.is_end_stream(),
        }
    }
}

/// The answer of a unary call.
pub fn unary(outcome: Result<Framed, Failure>) -> Answer {
    match outcome {
        Ok(framed) => with_body(AnswerBody::Message(framed.chunks), framed.coding),
        Err(failure) => failed(&failure),
    }
}

/// A head that announces messages.
pub fn with_body(body: AnswerBody, coding: Option<Coding>) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    if let Some(coding) = coding {
        headers.insert("grpc-encoding", HeaderValue::from_static(coding.name()));
    }
    headers.insert("grpc-accept-encoding", ACCEPTED);
    answer
}

/// The answer, with a witness if there is one.
pub fn watched(answer: Answer, witness: Option<Witness>) -> Answer {
    match witness {
        Some(witness) => answer.map(|body| AnswerBody::Watched(Watched::new(body, witness))),
        None => answer,
    }
}

/// The answer, of a call that counts as unanswered until its last message.
pub fn with_guard(mut answer: Answer, unanswered: Unanswered) -> Answer {
    if let AnswerBody::Stream(_, guard) = answer.body_mut() {
        *guard = Some(unanswered);
    }
    answer
}

/// A failure before any message: its trailers are the headers.
pub fn failed(failure: &Failure) -> Answer {
    let mut answer = Response::new(AnswerBody::Empty);
    let headers = answer.headers_mut();
    *headers = trailers(failure);
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert("grpc-accept-encoding", ACCEPTED);
    answer
}

/// To a client that does not speak gRPC.
pub fn unsupported_media_type() -> Answer {
    let mut answer = Response::new(AnswerBody::Empty);
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    answer
}

/// Trailers that end an answer with a failure.
pub fn trailers(failure: &Failure) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert("grpc-status", HeaderValue::from(failure.code.0));
    if let Ok(message) = HeaderValue::from_str(&encode_message(&failure.message)) {
        headers.insert("grpc-message", message);
    }
    headers
}

/// Trailers of success.
pub fn ok_trailers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert("grpc-status", HeaderValue::from_static("0"));
    headers
}

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// gRPC's percent-encoding: of all bytes but printable ASCII, and of '%'.
fn encode_message(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for character in message.chars() {
        if encoded.len() > MAX_MESSAGE_BYTES {
            encoded.push_str("...");
            break;
        }
        if matches!(character, ' '..='~') && character != '%' {
            encoded.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(encode_message("50% of 'x'\n"), "50%25 of 'x'%0A");
        assert_eq!(encode_message("é"), "%C3%A9");
    }

    #[test]
    fn long_messages_are_cut() {
        let encoded = encode_message(&"\n".repeat(10_000));
        assert!(encoded.len() < MAX_MESSAGE_BYTES + 10);
        assert!(encoded.ends_with("..."));
    }
}
