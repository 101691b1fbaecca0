//! One call, dispatched by the path of its method.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request};

use super::answer::{self, Answer};
use super::link::Link;
use super::reflection::{self, Reflection};
use super::{control, health, infer, stream};
use crate::access::{self, Entry, Incoming};
use crate::courier::Courier;
use crate::http::service::guarded;
use crate::listener::Listener;
use crate::reply::Failure;
use crate::status::Code;
use crate::watch::Witness;
use crate::wire::Wire;

/// The methods of this service that are not named below are Python's to answer, unknown ones too.
const INFERENCE_SERVICE: &str = "/inference.GRPCInferenceService/";
const READY: &str = "/inference.GRPCInferenceService/ServerReady";
const MODEL_READY: &str = "/inference.GRPCInferenceService/ModelReady";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// What the calls of one I/O thread share.
pub struct Front {
    pub wire: Arc<Wire>,
    /// Wakes tasks of this thread.
    pub courier: Arc<Courier>,
    pub reflection: Option<Reflection>,
}

impl Front {
    pub fn new(wire: Arc<Wire>, courier: Arc<Courier>) -> Arc<Self> {
        let reflection = Reflection::of(&wire.options.file_descriptor_set);
        Arc::new(Self { wire, courier, reflection })
    }
}

/// An answer in the making. Boxed, because hyper moves it about before it first runs.
pub type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Never fails: what goes wrong is an answer, a panic too.
pub fn answer(front: Arc<Front>, link: Arc<Link>, request: Request<hyper::body::Incoming>) -> Answering {
    let log = front.wire.access.as_ref();
    let entry = log.map(|log| access::begin(log, Listener::Grpc, link.client, &request));
    let request = request.map(|body| Incoming::new(body, entry.as_deref()));
    let answering = begin(front, link, request);
    match entry {
        None => answering,
        Some(entry) => Box::pin(recorded(answering, entry)),
    }
}

/// What goes out is recorded as it goes.
async fn recorded(answering: Answering, mut entry: Box<Entry>) -> Result<Answer, Infallible> {
    let answer = answering.await?;
    entry.answers(answer.status(), answer.headers());
    Ok(answer::watched(answer, Some(Witness::Access(entry))))
}

fn begin(front: Arc<Front>, link: Arc<Link>, request: Request<Incoming>) -> Answering {
    front.wire.counters.grpc_requests.add(1);
    let unanswered = link.life.request();
    if !is_grpc(request.headers()) {
        return Box::pin(std::future::ready(Ok(answer::unsupported_media_type())));
    }
    let path = request.uri().path();
    if let Some(header) = front.wire.options.grpc_restrictions.missing(path, request.headers()) {
        // Clients match on this phrase.
        let message = format!("This protocol is restricted, expecting header '{header}'");
        return Box::pin(std::future::ready(Ok(answer::failed(&Failure::new(Code::UNAVAILABLE, message)))));
    }
    if path == "/inference.GRPCInferenceService/ModelInfer" {
        let (parts, body) = request.into_parts();
        Box::pin(async move {
            let answer = settled(&front, pin!(infer::answer(&front, &link, parts.headers, body))).await;
            drop(unanswered);
            Ok(answer)
        })
    } else {
        Box::pin(async move {
            let answer = settled(&front, pin!(dispatch(&front, &link, request))).await;
            let delay_ms = front.wire.options.grpc_answer_delay_ms;
            if delay_ms > 0 && !answer.body().is_stream() {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            Ok(answer::with_guard(answer, unanswered))
        })
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

async fn settled<F: Future<Output = Answer>>(front: &Front, answering: Pin<&mut F>) -> Answer {
    guarded(answering).await.unwrap_or_else(|| {
        front.wire.counters.panics.add(1);
        answer::failed(&Failure::new(Code::INTERNAL, "the server failed to handle this call"))
    })
}

async fn dispatch(front: &Arc<Front>, link: &Arc<Link>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    if front.reflection.is_some() && reflection::serves(&path) {
        return reflection::answer(Arc::clone(front), &parts, body);
    }
    match path.as_str() {
        READY | MODEL_READY | CHECK if front.wire.table.read().asks => control::answer(front, link, parts, body).await,
        "/inference.GRPCInferenceService/ModelStreamInfer" => {
            stream::answer(Arc::clone(front), Arc::clone(link), parts, body)
        }
        "/inference.GRPCInferenceService/ServerLive" => health::server(front, parts, body, |table| table.live).await,
        READY => health::server(front, parts, body, |table| table.ready).await,
        MODEL_READY => health::model(front, parts, body).await,
        CHECK => health::check(front, parts, body).await,
        "/grpc.health.v1.Health/Watch" => health::watch(front, parts, body).await,
        path if path.starts_with(INFERENCE_SERVICE) => control::answer(front, link, parts, body).await,
        path => answer::failed(&Failure::new(Code::UNIMPLEMENTED, format!("there is no method {path} on this server"))),
    }
}
