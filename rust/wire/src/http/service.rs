//! One request of a connection: to its handler, and what every answer has in common.

use std::convert::Infallible;
use std::future::{poll_fn, Future};
use std::net::SocketAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use http::header::{CONNECTION, SERVER};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, Version};

use super::answer::{self, shown, Answer};
use super::infer::Gated;
use super::route::{route, Route};
use super::{body, control, health, infer};
use crate::access::{self, Entry, Incoming};
use crate::connections::{Life, Whole};
use crate::courier::Courier;
use crate::forward::{Forwarded, RawHead};
use crate::grpc::stalled::Outbox;
use crate::heads::Heads;
use crate::in_hand::InHand;
use crate::listener::Listener;
use crate::status::Code;
use crate::watch::Witness;
use crate::wire::{Phase, Wire};

/// What the requests of one connection share.
pub struct Connection {
    pub wire: Arc<Wire>,
    pub courier: Arc<Courier>,
    pub life: Arc<Life>,
    /// Pieces of HTTP/2 answers that were not sent yet.
    pub outbox: Arc<Outbox>,
    pub listener: Listener,
    /// None for a Unix socket.
    pub client: Option<SocketAddr>,
    /// Whether it is under TLS.
    pub secure: bool,
    /// Of HTTP/1 requests, as they were sent, where headers are handed on.
    pub heads: Option<Arc<Mutex<Heads>>>,
    pub server: HeaderValue,
}

impl Connection {
    /// The head of the request that is handed over now, as it was sent.
    fn raw_head(&self, version: Version) -> Option<RawHead> {
        let heads = self.heads.as_ref().filter(|_| version < Version::HTTP_2)?;
        heads.lock().unwrap_or_else(PoisonError::into_inner).take().map(RawHead)
    }

    /// The headers of a request that go with it to a model.
    pub fn forwarded(&self, head: &Parts) -> Forwarded {
        let pattern = self.wire.options.http_forward.as_ref().filter(|_| self.listener == Listener::Http);
        pattern.map_or_else(Forwarded::new, |pattern| pattern.of_http(&head.headers, head.extensions.get()))
    }

    /// A request has come as a whole: it is worth waiting for, as long as what this gives lives.
    pub fn in_hand(&self) -> (InHand, Whole) {
        (self.wire.hands.take(), self.life.whole())
    }
}

/// Answer one request. A panic in a handler becomes a 500 and touches no other request.
///
/// Not async itself: the request counts as begun when hyper hands it over.
pub fn serve(
    connection: Arc<Connection>,
    mut request: Request<hyper::body::Incoming>,
) -> impl Future<Output = Result<Answer, Infallible>> {
    let unanswered = connection.life.request();
    if let Some(head) = connection.raw_head(request.version()) {
        request.extensions_mut().insert(head);
    }
    async move {
        let log = connection.wire.access.as_ref();
        let entry = log.map(|log| access::begin(log, connection.listener, connection.client, &request));
        let request = request.map(|body| Incoming::new(body, entry.as_deref()));
        let answer = answer(&connection, request).await;
        drop(unanswered);
        Ok(match entry {
            None => answer,
            Some(entry) => recorded(answer, entry),
        })
    }
}

/// What goes out is recorded as it goes.
fn recorded(answer: Answer, mut entry: Box<Entry>) -> Answer {
    entry.answers(answer.status(), answer.headers());
    answer::watched(answer, Some(Witness::Access(entry)))
}

async fn answer(connection: &Connection, request: Request<Incoming>) -> Answer {
    let wire = &connection.wire;
    wire.counters.http_requests.add(1);
    let version = request.version();
    let load = wire.load.asked(&request);
    let mut answer = guarded(dispatch(connection, request)).await.unwrap_or_else(|| {
        wire.counters.panics.add(1);
        answer::error(Code::INTERNAL, "the server failed to handle this request")
    });
    let headers = answer.headers_mut();
    headers.insert(SERVER, connection.server.clone());
    if let Some(format) = load {
        wire.load.tell(format, answer.status(), answer.headers_mut());
    }
    let headers = answer.headers_mut();
    if version < Version::HTTP_2 && *wire.phase.borrow() >= Phase::Exiting {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// What takes long is boxed: a future is moved about by whoever makes and keeps it, with the room for all that it may do.
async fn dispatch(connection: &Connection, request: Request<Incoming>) -> Answer {
    let (mut head, body) = request.into_parts();
    if let Some(refusal) = too_long_a_head(&head, connection.wire.options.max_header_bytes) {
        return refusal;
    }
    let mut listener = connection.listener;
    let gated = gated(connection, &head);
    if let Some(gated) = &gated {
        head.uri = gated.alias.uri.clone();
        listener = Listener::Http;
    }
    if listener == Listener::Metrics {
        return Box::pin(control::control(connection, listener, head, body)).await;
    }
    let redirect = match listener {
        Listener::Gateway(gateway) => gateway.redirect(&head.headers),
        _ => None,
    };
    let path = redirect.as_deref().unwrap_or(head.uri.path());
    if let Some(header) = connection.wire.options.http_restrictions.missing(path, &head.headers) {
        // Clients match on this phrase.
        let message = format!("This API is restricted, expecting header '{header}'");
        let refusal = answer::error_with(StatusCode::FORBIDDEN, &message);
        return Box::pin(body::refuse(&connection.wire, &head.headers, body, refusal)).await;
    }
    if listener != Listener::Http {
        return Box::pin(control::control(connection, listener, head, body)).await;
    }
    let table = &connection.wire.table;
    match route(head.uri.path()) {
        Route::Infer(target) if head.method == Method::POST => {
            Box::pin(infer::infer(connection, target, head, body, gated)).await
        }
        Route::Infer(_) => answer::not_allowed("POST"),
        Route::Control => Box::pin(control::control(connection, listener, head, body)).await,
        Route::NotFound => answer::not_found(&no_such(head.method.as_str(), head.uri.path())),
        Route::NoVersion(text) => answer::not_found(&no_version(&text)),
        _ if head.method != Method::GET && head.method != Method::HEAD => answer::not_allowed("GET, HEAD"),
        Route::Ready | Route::ModelReady(_) if table.read().asks => {
            Box::pin(control::control(connection, listener, head, body)).await
        }
        Route::Live => health::yes_or_no(table.read().live),
        Route::Ready => health::yes_or_no(table.read().ready),
        Route::ModelReady(target) => health::model_ready(&table.read(), &target),
    }
}

/// How a request came, where that is through a gateway and by a path that stands for another.
fn gated(connection: &Connection, head: &Parts) -> Option<Gated> {
    let Listener::Gateway(gateway) = connection.listener else { return None };
    let alias = connection.wire.gateways.alias(gateway, head)?;
    Some(Gated { gateway, alias })
}

fn no_such(method: &str, path: &str) -> String {
    format!("there is no {} {}", shown(method), shown(path))
}

fn no_version(text: &str) -> String {
    format!("'{}' is no version number, which has digits only", shown(text))
}

fn too_long_a_head(head: &Parts, limit: usize) -> Option<Answer> {
    let headers: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    (headers + target > limit).then(|| {
        let message = format!(
            "the request's path and headers have {} bytes, which exceeds the maximum of {limit}. \
             Use --max-header-size to increase the limit.",
            headers + target
        );
        answer::error_with(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &message)
    })
}

/// The future's result, or None when it panicked.
pub async fn guarded<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Err(_) => Poll::Ready(None),
    })
    .await
}
