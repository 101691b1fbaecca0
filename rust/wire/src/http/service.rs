//! One request of a connection: to its handler, and what every answer has in common.

use std::convert::Infallible;
use std::future::{poll_fn, Future};
use std::net::SocketAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CONNECTION, SERVER};
use http::{HeaderValue, Method, Request, Version};
use hyper::body::Incoming;

use super::answer::{self, Answer};
use super::route::{route, Route};
use super::{control, health, infer};
use crate::control::Listener;
use crate::courier::Courier;
use crate::status::Code;
use crate::wire::{Phase, Wire};

/// What the requests of one connection share.
pub struct Connection {
    pub wire: Arc<Wire>,
    pub courier: Arc<Courier>,
    pub listener: Listener,
    pub client: SocketAddr,
    pub server: HeaderValue,
}

/// Answer one request. A panic in a handler becomes a 500 and touches no other request.
pub async fn serve(connection: Arc<Connection>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let wire = &connection.wire;
    wire.counters.http_requests.add(1);
    let version = request.version();
    let mut answer = guarded(dispatch(&connection, request)).await.unwrap_or_else(|| {
        wire.counters.panics.add(1);
        answer::error(Code::INTERNAL, "the server failed to handle this request")
    });
    let headers = answer.headers_mut();
    headers.insert(SERVER, connection.server.clone());
    if version < Version::HTTP_2 && *wire.phase.borrow() >= Phase::Exiting {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

async fn dispatch(connection: &Connection, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    if connection.listener == Listener::Metrics {
        return control::control(connection, head, body).await;
    }
    let table = &connection.wire.table;
    match route(head.uri.path()) {
        Route::Infer(target) if head.method == Method::POST => infer::infer(connection, target, head, body).await,
        Route::Infer(_) => answer::not_allowed("POST"),
        Route::Control => control::control(connection, head, body).await,
        Route::NotFound => answer::not_found(),
        _ if head.method != Method::GET && head.method != Method::HEAD => answer::not_allowed("GET, HEAD"),
        Route::Live => health::yes_or_no(table.read().live),
        Route::Ready => health::yes_or_no(table.read().ready),
        Route::ModelReady(target) => health::model_ready(&table.read(), &target),
    }
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
