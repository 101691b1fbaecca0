//! An answer of many messages, written by a future that runs as long as the client reads.
//!
//! The future is polled by the answer's own body, so it needs no task, and it is dropped with it: when the client has
//! gone, everything that it holds is cancelled.

use std::future::Future;
use std::pin::{pin, Pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::sync::{mpsc, watch};

use super::answer::{self, Answer, AnswerBody, BodyError};
use super::encode::Framed;
use super::infer::within;
use crate::http::compress::Coding;
use crate::reply::Failure;
use crate::status::Code;
use crate::wire::Phase;

/// Chunks that may wait for the client to read, beside those that HTTP/2 holds. Others know how far a client is behind.
const MAX_WAITING_CHUNKS: usize = 2;

/// Where the future puts its messages.
pub struct Out(mpsc::Sender<Bytes>);

impl Out {
    /// Waits while the client does not read.
    pub async fn send(&self, framed: Framed) {
        for chunk in framed.chunks {
            // Cannot fail: the receiver lives as long as the future that sends.
            let _ = self.0.send(chunk).await;
        }
    }
}

/// An answer whose messages `write` makes, within the client's time limit. Its result becomes the trailers. Messages may
/// be compressed by `coding`.
pub fn answer<F>(limit: Option<Duration>, coding: Option<Coding>, write: impl FnOnce(Out) -> F) -> Answer
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (sender, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
    let writing = write(Out(sender));
    let driver = Box::pin(async move {
        let writing = pin!(writing);
        within(limit, writing).await
    });
    let body = Driven { driver: Some(driver), chunks, trailers: None };
    answer::with_body(AnswerBody::Stream(Box::pin(body), None), coding)
}

/// Resolves when the server wants its connections to end.
pub async fn draining(phase: &mut watch::Receiver<Phase>) {
    let _ = phase.wait_for(|&phase| phase >= Phase::Draining).await;
}

pub fn shutting_down() -> Failure {
    Failure::new(Code::UNAVAILABLE, "the server is shutting down")
}

type Driver = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

struct Driven {
    driver: Option<Driver>,
    chunks: mpsc::Receiver<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Driven {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(driver) = &mut self.driver {
            if let Poll::Ready(outcome) = driver.as_mut().poll(context) {
                self.driver = None;
                self.trailers =
                    Some(outcome.map_or_else(|failure| answer::trailers(&failure), |()| answer::ok_trailers()));
            }
        }
        // Ends when the driver has, which held the only sender.
        match std::task::ready!(self.chunks.poll_recv(context)) {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None => Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
        }
    }
}
