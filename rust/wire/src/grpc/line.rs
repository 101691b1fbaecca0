//! The order of one connection's unary calls. Decoding a large message takes time beside the I/O thread; a small one that
//! came later must not overtake it where the order matters.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Those whose message has come as a whole and that were not submitted yet, in order.
#[derive(Default)]
pub struct Line(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    places: VecDeque<(u64, Option<Waker>)>,
}

/// A place in the line, given up when dropped.
pub struct Place {
    line: Arc<Line>,
    number: u64,
}

impl Line {
    pub fn join(self: &Arc<Self>) -> Place {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.places.push_back((number, None));
        Place { line: Arc::clone(self), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Resolves when everybody before this has gone.
    pub async fn front(&self) {
        poll_fn(|context| self.poll_front(context)).await;
    }

    fn poll_front(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.line.lock();
        match state.places.iter_mut().position(|(number, _)| *number == self.number) {
            Some(place) if place > 0 => {
                state.places[place].1 = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        state.places.retain(|(number, _)| *number != self.number);
        let next = state.places.front_mut().and_then(|(_, waker)| waker.take());
        drop(state);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_waits_for_all_before_it_also_when_one_between_gives_up() {
        let line = Arc::<Line>::default();
        let (first, second, third) = (line.join(), line.join(), line.join());
        let waiting = tokio::spawn(async move { third.front().await });
        tokio::task::yield_now().await;
        drop(second);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.front().await;
        drop(first);
        waiting.await.unwrap();
    }
}
