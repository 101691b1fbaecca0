//! `ModelStreamInfer`: every message of the request becomes a call, every reply a message of the answer.
//!
//! Answers go out in the order of the requests. The error of one request is a message as well: the stream goes on, unless
//! the client said `triton_grpc_error: true` and the error is that of an inference.

use std::collections::VecDeque;
use std::sync::Arc;

use http::request::Parts;
use http::HeaderMap;
use hyper::body::Incoming;

use super::answer::{self, Answer};
use super::compression::Packing;
use super::driven::{self, Out};
use super::encode::{self, Framed};
use super::frame::{MessageReader, Received};
use super::infer::deadline_ns;
use super::link::Link;
use super::service::Front;
use super::{compression, decode, timeout};
use crate::call::{Arrival, Call, CancelGuard, Protocol, Request};
use crate::connections::Whole;
use crate::courier::{Courier, Wakes};
use crate::http::compress::Coding;
use crate::in_hand::InHand;
use crate::reply::{Failure, Reply, ReplySink};
use crate::slot::{Reader, Slot};
use crate::wire::monotonic_ns;

/// Requests of one stream that are not answered yet; more are not read.
const MAX_IN_FLIGHT: usize = 256;

pub fn answer(front: Arc<Front>, link: Arc<Link>, parts: Parts, body: Incoming) -> Answer {
    let coding = match compression::of_request(&parts.headers) {
        Ok(coding) => coding,
        Err(failure) => return answer::failed(&failure),
    };
    let limit = timeout::of_request(&parts.headers);
    let deadline_ns = deadline_ns(monotonic_ns(), limit);
    let packing = Packing::of_answer(coding, front.wire.options.grpc_compression, &parts.headers);
    let headers = parts.headers;
    let ends_at_error = headers.get("triton_grpc_error").is_some_and(|value| value == "true");
    let waiting = VecDeque::new();
    let stream = Stream { front, link, headers, coding, packing, ends_at_error, deadline_ns, waiting };
    driven::answer(limit, packing.map(|packing| packing.coding), move |out| stream.run(body, out))
}

struct Stream {
    front: Arc<Front>,
    link: Arc<Link>,
    headers: HeaderMap,
    coding: Option<Coding>,
    packing: Option<Packing>,
    /// An inference that fails ends the stream.
    ends_at_error: bool,
    deadline_ns: u64,
    /// The calls that are not answered yet, in order.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    reader: Reader<Result<Framed, Failure>>,
    _cancel_when_dropped: CancelGuard,
    _in_hand: (InHand, Whole),
}

impl Stream {
    async fn run(mut self, body: Incoming, out: Out) -> Result<(), Failure> {
        let wire = Arc::clone(&self.front.wire);
        let mut phase = wire.phase.subscribe();
        let mut reader = MessageReader::new(&wire, body);
        let mut end: Option<Result<(), Failure>> = None;
        loop {
            if let (true, Some(end)) = (self.waiting.is_empty(), &mut end) {
                return std::mem::replace(end, Ok(()));
            }
            let first = self.waiting.front();
            let may_read = end.is_none() && self.waiting.len() < MAX_IN_FLIGHT;
            tokio::select! {
                biased;
                answer = wait(first), if first.is_some() => {
                    self.waiting.pop_front();
                    self.send(answer?, &out).await;
                }
                next = reader.next(&wire), if may_read => match next {
                    Ok(Some(received)) => end = self.submit(received).await.err().map(Err),
                    Ok(None) => end = Some(Ok(())),
                    Err(failure) => end = Some(Err(failure)),
                },
                () = driven::draining(&mut phase), if end.is_none() => {
                    end = Some(Err(driven::shutting_down()));
                }
            }
        }
    }

    async fn send(&self, framed: Framed, out: &Out) {
        let framed = match self.packing {
            Some(packing) => compression::deflate(packing, framed).await,
            None => framed,
        };
        out.send(Framed { chunks: self.link.outbox.track(framed.chunks), ..framed }).await;
    }

    /// Fails when the message is no request at all; then the stream ends after the answers before it.
    async fn submit(&mut self, received: Received) -> Result<(), Failure> {
        let wire = &self.front.wire;
        let in_hand = self.link.in_hand();
        let arrival_ns = monotonic_ns();
        let (parsed, permit) = decode::received(received, self.coding, wire).await?;
        let arrival = Arrival {
            protocol: Protocol::GrpcStream,
            arrival_ns,
            deadline_ns: self.deadline_ns,
            headers: self.headers.clone(),
            permit: Some(permit),
        };
        let slot = Arc::new(Slot::default());
        let (courier, ends_at_error) = (Arc::clone(&self.front.courier), self.ends_at_error);
        let sink = StreamSink { slot: Arc::clone(&slot), courier, ends_at_error };
        let call = Call::new(parsed, arrival, Box::new(sink), &wire.inbox);
        let waiting = Waiting { reader: Reader(slot), _cancel_when_dropped: call.guard(), _in_hand: in_hand };
        self.waiting.push_back(waiting);
        wire.submit(call);
        Ok(())
    }
}

async fn wait(waiting: Option<&Waiting>) -> Result<Framed, Failure> {
    match waiting {
        Some(waiting) => waiting.reader.wait().await,
        None => std::future::pending().await,
    }
}

struct StreamSink {
    slot: Arc<Slot<Result<Framed, Failure>>>,
    courier: Arc<Courier>,
    ends_at_error: bool,
}

impl ReplySink for StreamSink {
    fn send(&self, request: &Request, reply: Reply, wakes: &mut Wakes) {
        let id = &request.parsed.id;
        let framed = match reply {
            Reply::Ok(response) => encode::streamed(&response, id),
            Reply::Err(failure) => Err(failure),
        };
        let answer = framed.or_else(|failure| match self.ends_at_error && failure.of_inference {
            true => Err(failure),
            false => Ok(encode::streamed_failure(&failure, &request.parsed.model_name, id)),
        });
        wakes.add(&self.courier, self.slot.fill(answer));
    }
}
