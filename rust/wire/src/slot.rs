//! The place where one answer waits for its connection: a one-shot channel whose waker the sender gets to keep.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::awake::AWAKE;

enum State<T> {
    Empty(Option<Waker>),
    Full(T),
    Done,
}

/// Filled once, read once. Later values are dropped.
pub struct Slot<T>(Mutex<State<T>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Mutex::new(State::Empty(None)))
    }
}

impl<T> Slot<T> {
    /// Put the answer in. The reader, if it sleeps, is the caller's to wake (see `courier::Wakes`).
    pub fn fill(&self, value: T) -> Option<Waker> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, State::Empty(_)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Full(value)) {
            State::Empty(waker) => waker,
            _ => None,
        }
    }

    pub fn poll(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Empty(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Done) {
            State::Full(value) => Poll::Ready(value),
            _ => Poll::Pending,
        }
    }

    /// The answer. Read it once: a wait after that never ends. A wait that is given up may be begun again.
    pub async fn wait(&self) -> T {
        poll_fn(|context| self.poll(context)).await
    }

    fn close(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut *state, State::Done);
        drop(state);
        drop(last);
    }
}

/// The only reader of a slot. When it is dropped, the answer is dropped at once, or as soon as it comes, however long
/// the sender keeps its end.
pub struct Reader<T>(pub Arc<Slot<T>>);

impl<T> Reader<T> {
    pub async fn wait(&self) -> T {
        self.0.wait().await
    }

    /// As `wait`, but the task stays awake for a moment while `alone` holds, and polls: with one call in flight there is
    /// nothing else to do on this thread, and a core to do it on.
    /// For HTTP only: clients of gRPC have threads that need the core themselves (290 µs for a call with this, 250 without).
    pub async fn wait_awake(&self, alone: impl Fn() -> bool) -> T {
        let until = Instant::now() + AWAKE;
        poll_fn(|context| {
            let polled = self.0.poll(context);
            if polled.is_pending() && alone() && Instant::now() < until {
                context.waker().wake_by_ref();
            }
            polled
        })
        .await
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}
