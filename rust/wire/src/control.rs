//! Calls that are not inferences: taken as they are, answered with whatever bytes the taker makes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Version};

use crate::answer_parts::PartSender;
use crate::budget::Permit;
use crate::courier::{Courier, Wakes};
use crate::forward::Forwarded;
use crate::listener::Listener;
use crate::reply::Failure;
use crate::slot::Slot;
use crate::status::Code;

pub struct HttpCall {
    pub key: u64,
    /// When its head had come, and when all of it had; 0 while that is not wanted (`Wire::stamping`).
    pub begun_ns: u64,
    pub arrival_ns: u64,
    pub listener: Listener,
    pub method: Method,
    /// As sent, not percent-decoded.
    pub path: String,
    pub query: String,
    pub version: Version,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub client: Option<SocketAddr>,
    /// Whether it came under TLS.
    pub secure: bool,
    /// Headers that go with it to a model.
    pub forwarded: Forwarded,
    pub answer: PartSender,
    pub permit: Option<Permit>,
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
            Self::Http(call) => call.answer.is_closed(),
            Self::Rpc(call) => call.is_cancelled(),
        }
    }
}

#[derive(Default)]
struct State {
    calls: VecDeque<ControlCall>,
    news: Vec<u64>,
    woken: bool,
    closed: bool,
}

/// Control calls waiting to be taken, in order, and news of those that were.
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
        let mut state = self.lock();
        if state.closed || state.calls.len() >= self.max_calls {
            return Err(call);
        }
        state.calls.push_back(call);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// The client of this HTTP call has gone, or has caught up. Bounded by the calls that have no answer yet.
    pub fn tell(&self, key: u64) {
        let mut state = self.lock();
        if !state.closed {
            state.news.push(key);
            drop(state);
            self.arrived.notify_one();
        }
    }

    /// Make one `take` return, the present one or the next.
    pub fn wake(&self) {
        self.lock().woken = true;
        self.arrived.notify_one();
    }

    /// Up to `max_items` calls, and all news. Waits until there is something; empty after the time, `wake` and `close`.
    pub fn take(&self, max_items: usize, timeout: Duration) -> (Vec<ControlCall>, Vec<u64>) {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.has_for(max_items) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.woken = false;
        let count = max_items.min(state.calls.len());
        let taken: Vec<_> = state.calls.drain(..count).collect();
        let news = std::mem::take(&mut state.news);
        let more = !state.calls.is_empty();
        drop(state);
        if more {
            self.arrived.notify_one();
        }
        // Nobody waits for the answer of those whose client went while they waited.
        (taken.into_iter().filter(|call| !call.has_gone()).collect(), news)
    }

    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        self.arrived.notify_all();
        drop(calls);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_for(&self, max_items: usize) -> bool {
        (max_items > 0 && !self.calls.is_empty()) || !self.news.is_empty() || self.woken || self.closed
    }
}
