//! What goes back to an HTTP client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::answer_parts::{Part, PartReceiver};
use crate::connections::Whole;
use crate::in_hand::InHand;
use crate::status::Code;
use crate::watch::{Watched, Witness};

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Characters of a path in a message.
const MAX_SHOWN: usize = 200;

pub type Answer = Response<AnswerBody>;

/// The body of an answer. Every form but `Parts` has a known length.
pub enum AnswerBody {
    Empty,
    Whole(Bytes),
    /// A header and tensors, each written from where it lies.
    Pieces(VecDeque<Bytes>),
    /// Written by a control handler as it goes; a known length comes from its own header.
    Parts(PartReceiver, (InHand, Whole)),
    /// Any of these, with somebody who looks on.
    Watched(Box<Watched<Self>>),
}

/// The peer sees the connection break instead of a body that looks whole.
#[derive(Debug)]
pub struct CutShort;

impl std::fmt::Display for CutShort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the handler ended before its answer did")
    }
}

impl std::error::Error for CutShort {}

impl From<Infallible> for CutShort {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let next = match &mut *self {
            Self::Empty => None,
            Self::Whole(bytes) => Some(std::mem::take(bytes)),
            Self::Pieces(pieces) => pieces.pop_front(),
            Self::Parts(parts, _) => return poll_part(parts, context),
            Self::Watched(watched) => return Pin::new(watched.as_mut()).poll_frame(context),
        };
        if matches!(*self, Self::Whole(_)) {
            *self = Self::Empty;
        }
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(_) | Self::Parts(..) => false,
            Self::Pieces(pieces) => pieces.is_empty(),
            Self::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Self::Parts(..) => SizeHint::default(),
            Self::Watched(watched) => watched.size_hint(),
        }
    }
}

fn poll_part(parts: &mut PartReceiver, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
    loop {
        match std::task::ready!(parts.poll_next(context)) {
            Some(Part::Chunk(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Part::End) => return Poll::Ready(None),
            Some(Part::Head(_)) => {}
            None => return Poll::Ready(Some(Err(CutShort))),
        }
    }
}

/// The answer, with a witness if there is one.
pub fn watched(answer: Answer, witness: Option<Witness>) -> Answer {
    match witness {
        Some(witness) => answer.map(|body| AnswerBody::Watched(Watched::new(body, witness))),
        None => answer,
    }
}

/// A status without a body.
pub fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::Empty);
    *answer.status_mut() = status;
    answer
}

/// `{"error": message}` with the status of `code`.
pub fn error(code: Code, message: &str) -> Answer {
    error_with(status_of(code), message)
}

pub fn status_of(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub fn error_with(status: StatusCode, message: &str) -> Answer {
    let mut answer = Response::new(AnswerBody::Whole(error_body(message)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

pub fn error_body(message: &str) -> Bytes {
    let text = serde_json::to_string(message).unwrap_or_else(|_| "\"\"".to_owned());
    format!("{{\"error\":{text}}}").into()
}

pub fn not_found(why: &str) -> Answer {
    error_with(StatusCode::NOT_FOUND, &format!("Not Found: {why}"))
}

/// A method, path or part of one as a message shows it: in ASCII, and cut when it is very long.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for each in text.chars().take(MAX_SHOWN) {
        match each.is_ascii_graphic() {
            true => shown.push(each),
            false => shown.extend(each.escape_unicode()),
        }
    }
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

pub fn not_allowed(allow: &'static str) -> Answer {
    let mut answer = error_with(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    answer
}
