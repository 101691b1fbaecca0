//! `ModelInfer`: one message becomes one call, and its reply the answer.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::answer::{self, Answer};
use super::compression::Packing;
use super::encode::{self, Framed};
use super::frame::MessageReader;
use super::link::Link;
use super::service::Front;
use super::{compression, decode, timeout};
use crate::access::Incoming;
use crate::call::{Arrival, Call, Protocol, Request};
use crate::courier::{Courier, Wakes};
use crate::reply::{Failure, Reply, ReplySink};
use crate::slot::{Reader, Slot};
use crate::status::Code;
use crate::watch::{Sending, Witness};
use crate::wire::monotonic_ns;

pub async fn answer(front: &Front, link: &Link, headers: HeaderMap, body: Incoming) -> Answer {
    let limit = timeout::of_request(&headers);
    let mut sending = None;
    let framed = {
        let work = pin!(infer(front, link, headers, body, limit, &mut sending));
        within(limit, work).await
    };
    let answer = answer::unary(framed.map(|framed| Framed { chunks: link.outbox.track(framed.chunks), ..framed }));
    answer::watched(answer, sending.map(Witness::Sending))
}

/// Run `work` no longer than the client is willing to wait. What it waits for is cancelled when it is dropped.
///
/// It comes pinned: by value it would take its place three times.
pub async fn within<T, F>(limit: Option<Duration>, work: Pin<&mut F>) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let Some(limit) = limit else { return work.await };
    let timed = Box::pin(tokio::time::timeout(limit, work));
    timed.await.unwrap_or_else(|_| Err(deadline_exceeded(limit)))
}

pub fn deadline_exceeded(limit: Duration) -> Failure {
    Failure::new(Code::DEADLINE_EXCEEDED, format!("the call's deadline of {limit:?} passed before it was answered"))
}

/// The moment of a deadline on the clock of arrivals; 0 for none.
pub fn deadline_ns(arrival_ns: u64, limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| arrival_ns.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
}

async fn infer(
    front: &Front,
    link: &Link,
    headers: HeaderMap,
    body: Incoming,
    limit: Option<Duration>,
    sending: &mut Option<Sending>,
) -> Result<Framed, Failure> {
    let begun_ns = front.wire.stamping.now();
    let seen = body.seen();
    let deadline_ns = deadline_ns(monotonic_ns(), limit);
    let wire = &front.wire;
    let coding = compression::of_request(&headers)?;
    let received = MessageReader::new(wire, body).one(wire).await?;
    let _in_hand = link.in_hand();
    // What a slow client takes to send its message is not the server's time; its deadline counts all the same.
    let arrival_ns = monotonic_ns();
    let place = link.line.join();
    let asked = coding.filter(|_| received.is_compressed);
    let packing = Packing::of_answer(asked, wire.options.grpc_compression, &headers);
    let (mut parsed, permit) = decode::received(received, coding, wire).await?;
    if let Some(seen) = seen {
        seen.names(&parsed);
    }
    if wire.entry(&parsed).route == 0 {
        // Of a model with sequences, perhaps.
        place.front().await;
    }
    if let Some(pattern) = &wire.options.grpc_forward {
        parsed.forwarded = pattern.of_grpc(&headers);
    }
    let arrival =
        Arrival { protocol: Protocol::Grpc, begun_ns, arrival_ns, deadline_ns, headers, permit: Some(permit) };
    let slot = Arc::new(Slot::default());
    let sink = UnarySink { slot: Arc::clone(&slot), courier: Arc::clone(&front.courier) };
    let call = Call::new(parsed, arrival, Box::new(sink), &wire.inbox);
    let guard = call.guard();
    let reader = Reader(slot);
    wire.submit(call);
    drop(place);
    let framed = reader.wait().await;
    *sending = guard.0.sending();
    let framed = framed?;
    match packing {
        None => Ok(framed),
        Some(packing) => Ok(compression::deflate(packing, framed).await),
    }
}

/// Encodes on the replying thread; the connection's task is woken by the courier.
struct UnarySink {
    slot: Arc<Slot<Result<Framed, Failure>>>,
    courier: Arc<Courier>,
}

impl ReplySink for UnarySink {
    fn send(&self, request: &Request, reply: Reply, wakes: &mut Wakes) {
        let outcome = match reply {
            Reply::Ok(response) => encode::unary(&response, &request.parsed.id),
            Reply::Err(failure) => Err(failure),
            Reply::End => Err(Failure::no_response(&request.parsed.model_name)),
        };
        wakes.add(&self.courier, self.slot.fill(outcome));
    }
}
