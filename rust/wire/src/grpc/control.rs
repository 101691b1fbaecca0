//! Every other unary method: the message goes to the control inbox as it is, Python answers.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use http::request::Parts;
use http::HeaderMap;

use super::answer::{self, Answer};
use super::encode::Framed;
use super::frame::MessageReader;
use super::infer::within;
use super::link::Link;
use super::service::Front;
use super::{compression, timeout};
use crate::access::Incoming;
use crate::control::{ControlCall, RpcCall};
use crate::reply::Failure;
use crate::slot::{Reader, Slot};
use crate::status::Code;

pub async fn answer(front: &Front, link: &Link, parts: Parts, body: Incoming) -> Answer {
    let limit = timeout::of_request(&parts.headers);
    let path = parts.uri.path().to_owned();
    let work = pin!(ask(front, link, path, parts.headers, body));
    answer::unary(within(limit, work).await)
}

async fn ask(front: &Front, link: &Link, path: String, metadata: HeaderMap, body: Incoming) -> Result<Framed, Failure> {
    let wire = &front.wire;
    let coding = compression::of_request(&metadata)?;
    let received = MessageReader::new(wire, body).one(wire).await?;
    let _in_hand = link.in_hand();
    let (message, permit) = received.inflated(coding, wire).await?;
    let slot = Arc::new(Slot::default());
    let cancelled = Arc::new(AtomicBool::new(false));
    let _set_when_dropped = SetWhenDropped(Arc::clone(&cancelled));
    let call = RpcCall {
        path,
        message,
        metadata,
        cancelled,
        slot: Arc::clone(&slot),
        courier: Arc::clone(&front.courier),
        permit: Some(permit),
    };
    let reader = Reader(slot);
    if let Err(ControlCall::Rpc(refused)) = wire.control.push(ControlCall::Rpc(call)) {
        refused.answer(Err(too_many()));
    }
    Framed::of_message(&reader.wait().await?)
}

struct SetWhenDropped(Arc<AtomicBool>);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn too_many() -> Failure {
    let message = "the server has more control calls waiting than it may hold, or is shutting down";
    Failure::new(Code::UNAVAILABLE, message)
}
