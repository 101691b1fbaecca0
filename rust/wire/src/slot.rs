//! The place where one answer waits for its connection: a one-shot channel whose waker the sender gets to keep.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

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

    /// The answer. Read it once: a second wait never ends. When the wait is given up, the answer is dropped at once,
    /// or as soon as it comes, however long the sender keeps its end.
    pub async fn wait(&self) -> T {
        let _closing = Closing(self);
        poll_fn(|context| self.poll(context)).await
    }

    fn close(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut *state, State::Done);
        drop(state);
        drop(last);
    }
}

struct Closing<'a, T>(&'a Slot<T>);

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}
