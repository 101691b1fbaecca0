//! Requests that Python answers itself: handed over whole, the answer passed through as it is written.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, Version};

use super::answer::{self, Answer, AnswerBody};
use super::body;
use super::service::Connection;
use crate::access::Incoming;
use crate::answer_parts::{answer_channel, Head, Part, PartReceiver};
use crate::call::next_key;
use crate::connections::Whole;
use crate::control::{ControlCall, HttpCall};
use crate::in_hand::InHand;
use crate::listener::Listener;
use crate::status::Code;

/// The answer of a control handler, which finds the call at `listener`. It learns that the client has gone when the answer's body is dropped.
pub async fn control(connection: &Connection, listener: Listener, mut head: Parts, body: Incoming) -> Answer {
    let begun_ns = connection.wire.stamping.now();
    let forwarded = connection.forwarded(&head);
    let (bytes, permit) = match body::read(&connection.wire, &head.headers, body, None).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let in_hand = connection.in_hand();
    let arrival_ns = connection.wire.stamping.now();
    if head.headers.remove(CONTENT_ENCODING).is_some() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    }
    let key = next_key();
    let outbox = (head.version == Version::HTTP_2).then(|| Arc::clone(&connection.outbox));
    let (answer, mut parts) = answer_channel(key, &connection.wire.control, outbox);
    let call = HttpCall {
        key,
        begun_ns,
        arrival_ns,
        listener,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        method: head.method,
        version: head.version,
        headers: head.headers,
        body: bytes,
        client: connection.client,
        secure: connection.secure,
        forwarded,
        answer,
        permit,
    };
    if connection.wire.control.push(ControlCall::Http(call)).is_err() {
        return answer::error(Code::UNAVAILABLE, "the server has too many requests waiting, or is shutting down");
    }
    match parts.next().await {
        Some(Part::Head(head)) => pass(head, parts, in_hand),
        _ => answer::error(Code::INTERNAL, "the request was lost inside the server"),
    }
}

fn pass(head: Head, parts: PartReceiver, in_hand: (InHand, Whole)) -> Answer {
    let mut answer = Response::new(AnswerBody::Parts(parts, in_hand));
    *answer.status_mut() = http::StatusCode::from_u16(head.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in head.headers {
        if let Some((name, value)) = header(&name, value) {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

/// None for what the connection decides alone, and for bytes that no header may have.
fn header(name: &[u8], value: Bytes) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name).ok()?;
    let value = HeaderValue::from_maybe_shared(value).ok()?;
    (name != CONNECTION && name != TRANSFER_ENCODING).then_some((name, value))
}
