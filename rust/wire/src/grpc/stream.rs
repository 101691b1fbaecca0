//! `ModelStreamInfer`: every message of the request becomes a call, every reply a message of the answer.
//!
//! The error of one request is a message as well: the stream goes on, unless the client said `triton_grpc_error: true` and
//! the error is that of an inference.

use std::sync::Arc;

use http::request::Parts;
use http::HeaderMap;
use tokio::task::JoinHandle;

use super::answer::{self, Answer};
use super::compression::Packing;
use super::driven::{self, Out};
use super::encode::Framed;
use super::frame::{MessageReader, Received};
use super::infer::deadline_ns;
use super::link::Link;
use super::outgoing::{Batch, Outgoing};
use super::service::Front;
use super::stream_sink::StreamSink;
use super::{compression, decode, timeout};
use crate::access::{Incoming, Seen};
use crate::backlog::Backlog;
use crate::call::{Arrival, Call, Protocol};
use crate::http::compress::Coding;
use crate::reply::Failure;
use crate::status::Code;
use crate::wire::monotonic_ns;

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
    let outgoing = Outgoing::new(&front.wire.inbox);
    let seen = body.seen();
    let watch = tokio::spawn(watch(Arc::clone(&outgoing), Arc::clone(&front)));
    let stream = Stream { front, link, headers, coding, packing, deadline_ns, outgoing, ends_at_error, watch, seen };
    driven::answer(limit, packing.map(|packing| packing.coding), move |out| stream.run(body, out))
}

struct Stream {
    front: Arc<Front>,
    link: Arc<Link>,
    headers: HeaderMap,
    coding: Option<Coding>,
    packing: Option<Packing>,
    deadline_ns: u64,
    outgoing: Arc<Outgoing>,
    ends_at_error: bool,
    watch: JoinHandle<()>,
    seen: Option<Arc<Seen>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.watch.abort();
        self.outgoing.close();
    }
}

impl Stream {
    async fn run(self, body: Incoming, out: Out) -> Result<(), Failure> {
        let wire = Arc::clone(&self.front.wire);
        let mut phase = wire.phase.subscribe();
        let mut reader = MessageReader::new(&wire, body);
        let mut end: Option<Result<(), Failure>> = None;
        loop {
            if let (true, Some(end)) = (self.outgoing.is_done(), &mut end) {
                return std::mem::replace(end, Ok(()));
            }
            let may_read = end.is_none() && self.outgoing.may_expect_more();
            // In no fixed order: a model that always has more to say must not keep the client from being heard.
            tokio::select! {
                batch = self.outgoing.next(self.packing.is_none()) => self.send(batch, &out).await?,
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

    async fn send(&self, batch: Batch, out: &Out) -> Result<(), Failure> {
        let Batch { framed, failure, in_hand } = batch;
        let framed = match self.packing {
            Some(packing) if !framed.chunks.is_empty() => compression::deflate(packing, framed).await,
            _ => framed,
        };
        let chunks = match framed.chunks.len() {
            // Ours: nobody waits for it to be given back.
            0 | 1 => framed.chunks,
            _ => self.link.outbox.track(framed.chunks),
        };
        out.send(Framed { chunks, ..framed }).await;
        drop(in_hand);
        failure.map_or(Ok(()), Err)
    }

    /// Fails when the message is no request at all; then the stream ends after the answers before it.
    async fn submit(&self, received: Received) -> Result<(), Failure> {
        let wire = &self.front.wire;
        let in_hand = self.link.in_hand();
        let arrival_ns = monotonic_ns();
        let begun_ns = if wire.stamping.now() > 0 { arrival_ns } else { 0 };
        let (mut parsed, permit) = decode::received(received, self.coding, wire).await?;
        if let Some(pattern) = &wire.options.grpc_forward {
            parsed.forwarded = pattern.of_grpc(&self.headers);
        }
        let arrival = Arrival {
            protocol: Protocol::GrpcStream,
            begun_ns,
            arrival_ns,
            deadline_ns: self.deadline_ns,
            headers: self.headers.clone(),
            permit: Some(permit),
        };
        if let Some(seen) = &self.seen {
            seen.names(&parsed);
        }
        let is_in_order = !wire.entry(&parsed).decoupled;
        let backlog = Arc::new(Backlog::default());
        let sink = StreamSink {
            outgoing: Arc::clone(&self.outgoing),
            courier: Arc::clone(&self.front.courier),
            backlog: Arc::clone(&backlog),
            ends_at_error: self.ends_at_error,
        };
        let call = Call::new(parsed, arrival, Box::new(sink), &wire.inbox);
        self.outgoing.expect(&call, is_in_order, backlog, in_hand);
        wire.submit(call);
        Ok(())
    }
}

/// Give up a client that reads nothing for too long. A task of its own: an answer that can't be written is not polled.
async fn watch(outgoing: Arc<Outgoing>, front: Arc<Front>) {
    let patience = front.wire.options.write_timeout();
    outgoing.stalled(patience).await;
    let message = format!(
        "the client has read none of the answers that wait for it in {patience:?}. Use --write-timeout-secs to give \
         it more time."
    );
    outgoing.cut(Failure::new(Code::DEADLINE_EXCEEDED, message));
}
