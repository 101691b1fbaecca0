//! Liveness and readiness, answered from the published table.

use std::pin::pin;
use std::sync::Arc;

use http::request::Parts;
use prost::Message;

use super::answer::{self, Answer};
use super::encode::Framed;
use super::frame::MessageReader;
use super::infer::within;
use super::messages::{Flag, HealthCheckRequest, HealthCheckResponse, ModelReadyRequest, ServingStatus};
use super::service::Front;
use super::timeout;
use super::{compression, driven};
use crate::access::Incoming;
use crate::reply::Failure;
use crate::status::Code;
use crate::table::Published;

/// `ServerLive` and `ServerReady`: `choose` picks the flag.
pub async fn server(front: &Front, parts: Parts, body: Incoming, choose: fn(&Published) -> bool) -> Answer {
    unary::<HealthCheckRequest, _>(front, parts, body, |_, table| Ok(Flag { value: choose(table) })).await
}

/// `ModelReady`: false for a model that nobody knows, which clients rely on.
pub async fn model(front: &Front, parts: Parts, body: Incoming) -> Answer {
    let look_up = |request: ModelReadyRequest, table: &Published| {
        let version = version_key(&request.version)?;
        let value = table.model(&request.name, version).is_some_and(|entry| entry.ready);
        Ok(Flag { value })
    };
    unary(front, parts, body, look_up).await
}

/// `grpc.health.v1`: whatever service is asked for, the answer is about the server.
pub async fn check(front: &Front, parts: Parts, body: Incoming) -> Answer {
    unary::<HealthCheckRequest, _>(front, parts, body, |_, table| Ok(serving(table))).await
}

/// The status now and after every change, until the client or the server goes.
pub async fn watch(front: &Arc<Front>, parts: Parts, body: Incoming) -> Answer {
    if let Err(failure) = read::<HealthCheckRequest>(front, &parts, body).await {
        return answer::failed(&failure);
    }
    let front = Arc::clone(front);
    let limit = timeout::of_request(&parts.headers);
    driven::answer(limit, None, move |out| async move {
        let mut phase = front.wire.phase.subscribe();
        let mut table = front.wire.table.subscribe();
        let mut last = None;
        loop {
            let now = serving(&table.borrow_and_update());
            if last != Some(now.status) {
                last = Some(now.status);
                out.send(Framed::of_message(&now.encode_to_vec().into())?).await;
            }
            tokio::select! {
                () = driven::draining(&mut phase) => return Err(driven::shutting_down()),
                changed = table.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    })
}

fn serving(table: &Published) -> HealthCheckResponse {
    let status = if table.ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

/// The table's key for a version as the client wrote it; "" is the server's choice.
fn version_key(version: &str) -> Result<&str, Failure> {
    match version.parse::<i64>() {
        Ok(0..) => Ok(version),
        Err(_) if version.is_empty() => Ok(version),
        Ok(_) | Err(_) => {
            let message = format!("model version '{version}' is no version: version should be an integral value > 0");
            Err(Failure::new(Code::INVALID_ARGUMENT, message))
        }
    }
}

async fn unary<Q: Message + Default, A: Message>(
    front: &Front,
    parts: Parts,
    body: Incoming,
    look_up: impl FnOnce(Q, &Published) -> Result<A, Failure>,
) -> Answer {
    let limit = timeout::of_request(&parts.headers);
    let work = pin!(async {
        let request = read(front, &parts, body).await?;
        let response = look_up(request, &front.wire.table.read())?;
        Framed::of_message(&response.encode_to_vec().into())
    });
    answer::unary(within(limit, work).await)
}

async fn read<Q: Message + Default>(front: &Front, parts: &Parts, body: Incoming) -> Result<Q, Failure> {
    let coding = compression::of_request(&parts.headers)?;
    let received = MessageReader::new(&front.wire, body).one(&front.wire).await?;
    let (message, _) = received.inflated(coding, &front.wire).await?;
    Q::decode(message).map_err(|error| {
        let message = format!("the message of {} cannot be parsed: {error}", parts.uri.path());
        Failure::new(Code::INVALID_ARGUMENT, message)
    })
}
