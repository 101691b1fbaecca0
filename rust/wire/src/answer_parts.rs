//! The answer to an HTTP request as its maker writes it: a head, then pieces of the body. Back comes how its client reads.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{ready, Context, Poll};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::backlog::Backlog;
use crate::control::ControlInbox;
use crate::grpc::stalled::Outbox;

/// The head of an HTTP answer.
pub struct Head {
    pub status: u16,
    pub headers: Vec<(Bytes, Bytes)>,
}

/// What an answer consists of, in this order: one head, then pieces of the body. The end of the channel ends the body;
/// without `Part::End` before it the body was cut short.
pub enum Part {
    Head(Head),
    Chunk(Bytes),
    End,
}

/// A second head, a body without one, or more behind the end.
#[derive(Debug)]
pub struct OutOfTurn;

/// How far an answer is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Body,
    Done,
}

/// Where an answer's parts go.
pub struct PartSender {
    parts: mpsc::UnboundedSender<Part>,
    shared: Arc<Shared>,
    outbox: Option<Arc<Outbox>>,
    stage: Mutex<Stage>,
}

/// Where they come out. Whoever made them is told when the client has caught up, or has gone before the end.
pub struct PartReceiver {
    key: u64,
    parts: mpsc::UnboundedReceiver<Part>,
    shared: Arc<Shared>,
    inbox: Arc<ControlInbox>,
}

#[derive(Default)]
struct Shared {
    backlog: Backlog,
    has_ended: AtomicBool,
}

/// The way of one call's answer.
///
/// Args: where HTTP/2 has its pieces watched, since a client may stop reading one answer there and go on with others.
pub fn answer_channel(key: u64, inbox: &Arc<ControlInbox>, outbox: Option<Arc<Outbox>>) -> (PartSender, PartReceiver) {
    let (sender, parts) = mpsc::unbounded_channel();
    let shared = Arc::<Shared>::default();
    let sender = PartSender { parts: sender, shared: Arc::clone(&shared), outbox, stage: Mutex::new(Stage::Head) };
    (sender, PartReceiver { key, parts, shared, inbox: Arc::clone(inbox) })
}

impl PartSender {
    /// Send the head. False when the client has gone.
    pub fn start(&self, head: Head) -> Result<bool, OutOfTurn> {
        self.advance(Stage::Head, Stage::Body)?;
        Ok(self.send(Part::Head(head)))
    }

    /// Send a piece of the body, the last one unless there is `more`. False when the client has gone.
    pub fn write(&self, chunk: Bytes, more: bool) -> Result<bool, OutOfTurn> {
        self.advance(Stage::Body, if more { Stage::Body } else { Stage::Done })?;
        if !more {
            self.shared.has_ended.store(true, Ordering::SeqCst);
        }
        let is_read = if chunk.is_empty() { !self.is_closed() } else { self.send_chunk(chunk) };
        if !more {
            // A connection that has all of an announced length looks no further: that is no sign of a client gone.
            self.send(Part::End);
        }
        Ok(is_read)
    }

    /// Whether the client has gone, or has all of the answer.
    pub fn is_closed(&self) -> bool {
        self.parts.is_closed()
    }

    /// Whether the client keeps up with the body. What is sent to one that has gone is dropped, so there is room for it.
    pub fn has_room(&self) -> bool {
        self.is_closed() || self.shared.backlog.has_room()
    }

    fn send_chunk(&self, chunk: Bytes) -> bool {
        match &self.outbox {
            Some(outbox) => outbox.pieces(chunk).all(|piece| self.send(Part::Chunk(piece))),
            None => self.send(Part::Chunk(chunk)),
        }
    }

    fn send(&self, part: Part) -> bool {
        if let Part::Chunk(chunk) = &part {
            self.shared.backlog.add(chunk.len());
        }
        self.parts.send(part).is_ok()
    }

    fn advance(&self, from: Stage, to: Stage) -> Result<(), OutOfTurn> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage != from {
            return Err(OutOfTurn);
        }
        *stage = to;
        Ok(())
    }
}

impl PartReceiver {
    /// Whether the whole answer is made: then nobody waits for news of it.
    fn has_ended(&self) -> bool {
        self.shared.has_ended.load(Ordering::SeqCst)
    }

    pub async fn next(&mut self) -> Option<Part> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Part>> {
        let part = ready!(self.parts.poll_recv(context));
        if let Some(Part::Chunk(chunk)) = &part {
            if self.shared.backlog.remove(chunk.len()) && !self.has_ended() {
                self.inbox.tell(self.key);
            }
        }
        Poll::Ready(part)
    }
}

impl Drop for PartReceiver {
    fn drop(&mut self) {
        self.parts.close();
        if !self.has_ended() {
            self.inbox.tell(self.key);
        }
    }
}
