//! Calls that are not inferences: taken as they are, answered with whatever bytes the taker makes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Version};
use tokio::sync::mpsc;

use crate::budget::Permit;
use crate::courier::{Courier, Wakes};
use crate::reply::Failure;
use crate::slot::Slot;
use crate::status::Code;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Http,
    Metrics,
}

/// The head of an HTTP answer.
pub struct Head {
    pub status: u16,
    pub headers: Vec<(Bytes, Bytes)>,
}

/// What an HTTP answer consists of, in this order: one head, then pieces of the body. The end of the channel ends the
/// body; without `Part::End` before it the body was cut short.
pub enum Part {
    Head(Head),
    Chunk(Bytes),
    End,
}

pub struct HttpCall {
    pub listener: Listener,
    pub method: Method,
    /// As sent, not percent-decoded.
    pub path: String,
    pub query: String,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub client: Option<SocketAddr>,
    pub answer: mpsc::UnboundedSender<Part>,
    pub permit: Option<Permit>,
}

impl HttpCall {
    /// False when the client has gone.
    pub fn send(&self, part: Part) -> bool {
        self.answer.send(part).is_ok()
    }

    /// Send the last piece of the body. False when the client has gone.
    pub fn end(&self, last: Bytes) -> bool {
        let there = if last.is_empty() { !self.is_disconnected() } else { self.send(Part::Chunk(last)) };
        // A connection that has all of an announced length looks no further: that is no sign of a client gone.
        self.send(Part::End);
        there
    }

    pub fn is_disconnected(&self) -> bool {
        self.answer.is_closed()
    }
}

/// A unary gRPC call: method path and serialised message. Dropped unanswered, it fails with INTERNAL.
pub struct RpcCall {
    /// "/package.Service/Method".
    pub path: String,
    pub message: Bytes,
    pub metadata: HeaderMap,
    pub cancelled: Arc<AtomicBool>,
    pub slot: Arc<Slot<Result<Bytes, Failure>>>,
    pub courier: Arc<Courier>,
    pub permit: Option<Permit>,
}

impl RpcCall {
    /// The serialised answer, or the failure. A second answer is ignored.
    pub fn answer(&self, answer: Result<Bytes, Failure>) {
        Wakes::default().add(&self.courier, self.slot.fill(answer));
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for RpcCall {
    fn drop(&mut self) {
        let message = format!("the call of {} was lost inside the server", self.path);
        self.answer(Err(Failure::new(Code::INTERNAL, message)));
    }
}

pub enum ControlCall {
    Http(HttpCall),
    Rpc(RpcCall),
}

impl ControlCall {
    fn has_gone(&self) -> bool {
        match self {
            Self::Http(call) => call.is_disconnected(),
            Self::Rpc(call) => call.is_cancelled(),
        }
    }
}

#[derive(Default)]
struct State {
    calls: VecDeque<ControlCall>,
    closed: bool,
}

/// Control calls waiting to be taken, in order.
pub struct ControlInbox {
    max_calls: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

impl ControlInbox {
    pub fn new(max_calls: usize) -> Arc<Self> {
        Arc::new(Self { max_calls, state: Mutex::default(), arrived: Condvar::new() })
    }

    /// Given back when the inbox is full or closed.
    pub fn push(&self, call: ControlCall) -> Result<(), ControlCall> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed || state.calls.len() >= self.max_calls {
            return Err(call);
        }
        state.calls.push_back(call);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits until there is something; empty after the time and after `close`.
    pub fn take(&self, max_items: usize, timeout: Duration) -> Vec<ControlCall> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.calls.is_empty() && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = max_items.min(state.calls.len());
        let taken: Vec<_> = state.calls.drain(..count).collect();
        let more = !state.calls.is_empty();
        drop(state);
        if more {
            self.arrived.notify_one();
        }
        // Nobody waits for the answer of those whose client went while they waited.
        taken.into_iter().filter(|call| !call.has_gone()).collect()
    }

    pub fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        self.arrived.notify_all();
        drop(calls);
    }
}
