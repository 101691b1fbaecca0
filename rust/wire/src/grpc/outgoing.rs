//! What one stream has to send: the answers to its requests, in the order in which they may go out.
//!
//! Models with one answer are answered in the order of the requests: what is made early waits here. The responses of
//! decoupled models go out as they come; they wait for nobody and keep nobody waiting.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::encode::Framed;
use crate::backlog::Backlog;
use crate::call::{Call, CancelGuard};
use crate::connections::Whole;
use crate::in_hand::InHand;
use crate::inbox::{Inbox, Item};
use crate::reply::Failure;
use crate::watch::Sending;

/// Requests of one stream that are open; more are not read. A request may wait for one that comes later in the stream, as a
/// sequence does for the end of another, so this is far beyond what a client has in flight.
const MAX_CALLS: usize = 16_384;

/// Bytes of answers that wait for those before them; while there are more, no request is read.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Messages up to this size are joined, up to that many bytes: one frame and one write for many.
const MAX_JOINED_BYTES: usize = 8 << 10;
const JOINED_BYTES: usize = 64 << 10;

pub type Content = Result<Framed, Failure>;

pub struct Outgoing {
    inbox: Arc<Inbox>,
    state: Mutex<State>,
    /// Something waits that did not before.
    filled: Notify,
}

#[derive(Default)]
struct State {
    calls: HashMap<u64, Open>,
    /// Those that are answered in order.
    in_order: VecDeque<u64>,
    held_bytes: usize,
    /// May go out now.
    ready: VecDeque<Message>,
    /// When the last one went, or the first one came, while some wait.
    moved_at: Option<Instant>,
    /// A call has ended, which the writer has not seen yet.
    has_ended: bool,
    /// Why nothing more will go out.
    cut: Option<Failure>,
    writer: Option<Waker>,
}

/// A call that has not ended.
struct Open {
    is_in_order: bool,
    /// Made, and waiting for those before it.
    held: VecDeque<Content>,
    has_ended: bool,
    backlog: Arc<Backlog>,
    in_hand: (InHand, Whole),
    guard: CancelGuard,
}

struct Message {
    content: Content,
    key: u64,
    backlog: Arc<Backlog>,
    /// With the last one of a call: a server that stops waits until it has gone.
    in_hand: Option<Last>,
}

/// What is kept until the last message of a call has gone.
pub type Last = (InHand, Whole, Option<Sending>);

/// What goes out at once.
#[derive(Default)]
pub struct Batch {
    pub framed: Framed,
    /// Ends the stream, after the messages.
    pub failure: Option<Failure>,
    /// Until they have gone.
    pub in_hand: Vec<Last>,
}

impl Outgoing {
    pub fn new(inbox: &Arc<Inbox>) -> Arc<Self> {
        Arc::new(Self { inbox: Arc::clone(inbox), state: Mutex::default(), filled: Notify::new() })
    }

    /// Expect the answers to a call, whose sink was made with `backlog`.
    pub fn expect(&self, call: &Call, is_in_order: bool, backlog: Arc<Backlog>, in_hand: (InHand, Whole)) {
        let open = Open { is_in_order, held: VecDeque::new(), has_ended: false, backlog, in_hand, guard: call.guard() };
        let key = call.request.key;
        let mut state = self.lock();
        state.calls.insert(key, open);
        if is_in_order {
            state.in_order.push_back(key);
        }
    }

    pub fn may_expect_more(&self) -> bool {
        let state = self.lock();
        state.calls.len() < MAX_CALLS && state.held_bytes < MAX_HELD_BYTES
    }

    /// Whether all calls have ended and all answers have gone.
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        state.calls.is_empty() && state.ready.is_empty() && state.cut.is_none()
    }

    /// What may go out now, or nothing, when a call has ended without a word. Waits for either.
    ///
    /// Args: whether small messages may be joined.
    pub async fn next(&self, join: bool) -> Batch {
        poll_fn(|context| self.poll_next(context, join)).await
    }

    fn poll_next(&self, context: &mut Context<'_>, join: bool) -> Poll<Batch> {
        let mut state = self.lock();
        let has_ended = std::mem::take(&mut state.has_ended);
        if state.ready.is_empty() && !has_ended && state.cut.is_none() {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (batch, relieved) = state.batch(join);
        state.moved_at = (!state.ready.is_empty()).then(Instant::now);
        drop(state);
        relieved.into_iter().for_each(|key| self.inbox.tell(Item::Room(key)));
        Poll::Ready(batch)
    }

    /// The next message of a call, if it has one to send. The writer, if it sleeps, is the caller's to wake.
    pub fn put(&self, key: u64, content: Option<Content>, is_last: bool) -> Option<Waker> {
        let mut state = self.lock();
        let was_empty = state.ready.is_empty();
        let open = state.calls.get_mut(&key)?;
        open.has_ended = is_last;
        let is_in_order = open.is_in_order;
        if let Some(content) = content {
            let bytes = bytes_of(&content);
            open.backlog.add(bytes);
            open.held.push_back(content);
            state.held_bytes += bytes;
        }
        if is_in_order {
            while state.in_order.front().copied().is_some_and(|first| state.release(first)) {
                state.in_order.pop_front();
            }
        } else {
            state.release(key);
        }
        if was_empty && !state.ready.is_empty() {
            state.moved_at = Some(Instant::now());
            self.filled.notify_waiters();
        }
        state.writer.take()
    }

    /// Resolves when something has waited for as long as `patience` and nothing moved.
    pub async fn stalled(&self, patience: Duration) {
        loop {
            // Made before the look, so that a change in between is not missed.
            let filled = pin!(self.filled.notified());
            if self.lock().moved_at.is_none() {
                filled.await;
            }
            // No look before there may be something to see: answers come by the thousand.
            let mut due = Instant::now() + patience;
            loop {
                tokio::time::sleep_until(due).await;
                let moved_at = self.lock().moved_at;
                match moved_at.map(|moved_at| moved_at + patience) {
                    None => break,
                    Some(due) if due <= Instant::now() => return,
                    Some(later) => due = later,
                }
            }
        }
    }

    /// Cancel all calls, drop all answers, and end with `failure` as soon as the client reads again.
    pub fn cut(&self, failure: Failure) {
        let mut state = self.lock();
        let cut = State { cut: Some(failure), writer: state.writer.take(), ..State::default() };
        let before = std::mem::replace(&mut *state, cut);
        let writer = state.writer.take();
        drop(state);
        drop(before);
        writer.into_iter().for_each(Waker::wake);
    }

    /// Nobody writes any more: cancel all calls.
    pub fn close(&self) {
        let before = std::mem::take(&mut *self.lock());
        drop(before);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Let the messages of a call go out; true when they were its last.
    fn release(&mut self, key: u64) -> bool {
        let Some(open) = self.calls.get_mut(&key) else { return true };
        let backlog = &open.backlog;
        self.held_bytes -= open.held.iter().map(bytes_of).sum::<usize>();
        let message = |content| Message { content, key, backlog: Arc::clone(backlog), in_hand: None };
        self.ready.extend(open.held.drain(..).map(message));
        if !open.has_ended {
            return false;
        }
        let in_hand = self.calls.remove(&key).map(|open| (open.in_hand.0, open.in_hand.1, open.guard.0.sending()));
        if let Some(last) = self.ready.back_mut().filter(|last| last.key == key) {
            last.in_hand = in_hand;
        }
        self.has_ended = true;
        true
    }

    /// The first message, and small ones that follow it. Also the keys of open calls that have room again.
    fn batch(&mut self, join: bool) -> (Batch, Vec<u64>) {
        let mut batch = Batch { failure: self.cut.take(), ..Batch::default() };
        let (mut small, mut bytes, mut relieved) = (Vec::new(), 0, Vec::new());
        while let Some(first) = self.ready.front() {
            let follows = join && bytes < JOINED_BYTES && first.is_small();
            if !(small.is_empty() || follows) {
                break;
            }
            let Some(Message { content, key, backlog, in_hand }) = self.ready.pop_front() else { break };
            let length = bytes_of(&content);
            if backlog.remove(length) && self.calls.contains_key(&key) {
                relieved.push(key);
            }
            batch.in_hand.extend(in_hand);
            match content {
                Ok(framed) if length <= MAX_JOINED_BYTES => {
                    bytes += length;
                    small.extend(framed.chunks);
                }
                Ok(framed) => {
                    batch.framed = framed;
                    break;
                }
                Err(failure) => {
                    batch.failure = Some(failure);
                    break;
                }
            }
        }
        if !small.is_empty() {
            batch.framed.chunks = [joined(small, bytes)].into();
        }
        (batch, relieved)
    }
}

impl Message {
    fn is_small(&self) -> bool {
        self.content.is_ok() && bytes_of(&self.content) <= MAX_JOINED_BYTES
    }
}

fn bytes_of(content: &Content) -> usize {
    content.as_ref().map_or(0, |framed| framed.chunks.iter().map(Bytes::len).sum())
}

fn joined(mut small: Vec<Bytes>, bytes: usize) -> Bytes {
    if small.len() == 1 {
        return small.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(bytes);
    small.iter().for_each(|chunk| whole.extend_from_slice(chunk));
    whole.freeze()
}
