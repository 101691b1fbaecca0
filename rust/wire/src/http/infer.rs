//! One inference request over HTTP: read, decode, submit, wait, answer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use super::answer::{self, Answer, AnswerBody};
use super::body;
use super::compress::{self, offload, Coding, Effort};
use super::encode::{Encoded, Sink};
use super::route::Target;
use super::service::Connection;
use crate::access::Incoming;
use crate::call::{Arrival, Call, ParsedCall, Protocol};
use crate::gateway::{Alias, Gateway};
use crate::options::RequestLimits;
use crate::slot::{Reader, Slot};
use crate::status::Code;
use crate::tensor;
use crate::watch::Witness;
use crate::wire::monotonic_ns;

/// How many bytes of the body are JSON; the rest are tensors.
pub const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The gateway that a request came through, and what its path stood for.
pub struct Gated {
    pub gateway: Gateway,
    pub alias: Arc<Alias>,
}

impl Gated {
    fn json_length(&self, headers: &HeaderMap) -> Result<Option<usize>, Answer> {
        self.gateway.json_length(headers).map_err(|message| answer::error(Code::INVALID_ARGUMENT, &message))
    }

    fn answer_type(&self, json_length: usize) -> Option<HeaderValue> {
        HeaderValue::try_from(self.gateway.answer_type(json_length)?).ok()
    }
}

/// The answer to an inference request, whatever comes of it. Dropping the future cancels the call.
pub async fn infer(
    connection: &Connection,
    target: Target,
    head: Parts,
    body: Incoming,
    gated: Option<Gated>,
) -> Answer {
    match submit(connection, target, head, body, gated).await {
        Ok(answer) | Err(answer) => answer,
    }
}

async fn submit(
    connection: &Connection,
    target: Target,
    head: Parts,
    body: Incoming,
    gated: Option<Gated>,
) -> Result<Answer, Answer> {
    let wire = &connection.wire;
    let begun_ns = wire.stamping.now();
    let seen = body.seen();
    let json_length = match &gated {
        None => json_length(&head.headers)?,
        Some(gated) => gated.json_length(&head.headers)?,
    };
    let (bytes, mut permit) = body::read(wire, &head.headers, body, json_length).await?;
    let _in_hand = connection.in_hand();
    // What a slow client takes to send its body is not the server's time.
    let arrival_ns = monotonic_ns();
    let json_bytes = json_length.unwrap_or(bytes.len());
    let mut parsed = decode(target, bytes, json_length, wire.options.http_request()).await?;
    if json_bytes > compress::OFFLOAD_BYTES {
        // Numbers may be longer than their text, which is forgotten now.
        body::cover(&parsed, &mut permit).await?;
    }
    if let Some(seen) = seen {
        seen.names(&parsed);
    }
    let accepted = compress::accepted(&head.headers).filter(|_| gated.is_none());
    parsed.forwarded = connection.forwarded(&head);

    let slot = Arc::new(Slot::default());
    let sink = Box::new(Sink { slot: Arc::clone(&slot), courier: Arc::clone(&connection.courier) });
    let protocol = Protocol::Http;
    let arrival = Arrival { protocol, begun_ns, arrival_ns, deadline_ns: 0, headers: head.headers, permit };
    let call = Call::new(parsed, arrival, sink, &wire.inbox);
    let guard = call.guard();
    let reader = Reader(slot);
    wire.submit(call);
    let encoded = reader.wait_awake(|| wire.is_nearly_idle()).await;
    let sending = guard.0.sending();
    let answer = respond(encoded, accepted, gated.as_ref()).await;
    Ok(answer::watched(answer, sending.map(Witness::Sending)))
}

/// The header's number; None without the header: then all of the body is JSON.
pub fn json_length(headers: &HeaderMap) -> Result<Option<usize>, Answer> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(length) if digits => Ok(Some(length)),
        _ => {
            let message = format!("Inference-Header-Content-Length must be a number of bytes, got '{text}'");
            Err(answer::error(Code::INVALID_ARGUMENT, &message))
        }
    }
}

async fn decode(
    target: Target,
    bytes: Bytes,
    json_length: Option<usize>,
    limits: RequestLimits,
) -> Result<ParsedCall, Answer> {
    let total = bytes.len();
    if json_length == Some(0) {
        return Ok(tensor::decode_raw_request(&target.model, &target.version, bytes));
    }
    let json_length = json_length.unwrap_or(total);
    if json_length > total {
        let message = format!(
            "the JSON of the request to model '{}' is said to have {json_length} bytes, but its body has only {total} \
             (Inference-Header-Content-Length, or json-header-size of the content type)",
            target.model
        );
        return Err(answer::error(Code::INVALID_ARGUMENT, &message));
    }
    let work = move || tensor::decode_request(&target.model, &target.version, &bytes, json_length, limits);
    Ok(offload(json_length, work).await)
}

async fn respond(encoded: Encoded, accepted: Option<Coding>, gated: Option<&Gated>) -> Answer {
    let Encoded { failure, json_length, mut pieces } = encoded;
    if let Some(code) = failure {
        let status = gated.and_then(|gated| gated.alias.status(&pieces));
        let mut answer = answer::empty(status.unwrap_or_else(|| answer::status_of(code)));
        *answer.body_mut() = whole(pieces);
        answer.headers_mut().insert(CONTENT_TYPE, answer::JSON);
        return answer;
    }
    if let Some(coding) = accepted {
        pieces = [compress::deflate(coding, Effort::Low, pieces.into()).await].into();
    }
    let mut answer = Response::new(whole(pieces));
    let headers = answer.headers_mut();
    match (json_length, json_length.and_then(|length| gated?.answer_type(length))) {
        (None, _) => headers.insert(CONTENT_TYPE, answer::JSON),
        (_, Some(told)) => headers.insert(CONTENT_TYPE, told),
        (Some(length), None) => {
            headers.insert(HEADER_LENGTH, HeaderValue::from(length));
            headers.insert(CONTENT_TYPE, OCTETS)
        }
    };
    if let Some(coding) = accepted {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    answer
}

fn whole(mut pieces: std::collections::VecDeque<Bytes>) -> AnswerBody {
    match pieces.len() {
        1 => AnswerBody::Whole(pieces.pop_front().unwrap_or_default()),
        _ => AnswerBody::Pieces(pieces),
    }
}
