//! One wake-up of an I/O thread for all the answers of a batch.
//!
//! Waking a task from outside its runtime costs a system call each time. A `Courier` lives on the runtime; others
//! leave it a whole batch of wakers and wake it once, and it wakes the tasks from inside, which is cheap.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct State {
    due: Vec<Waker>,
    sleeper: Option<Waker>,
}

#[derive(Default)]
pub struct Courier(Mutex<State>);

impl Courier {
    /// The courier's task: spawn it on the runtime whose tasks it shall wake.
    pub async fn run(self: Arc<Self>) {
        poll_fn(|context| self.deliver(context)).await;
    }

    fn deliver(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let due = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if state.due.is_empty() {
                    state.sleeper = Some(context.waker().clone());
                    return Poll::Pending;
                }
                std::mem::take(&mut state.due)
            };
            due.into_iter().for_each(Waker::wake);
        }
    }

    fn post(&self, wakers: &mut Vec<Waker>) {
        let sleeper = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.due.append(wakers);
            state.sleeper.take()
        };
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// The wake-ups owed for a batch of replies; paid when this is dropped.
#[derive(Default)]
pub struct Wakes(Vec<(Arc<Courier>, Vec<Waker>)>);

impl Wakes {
    /// Owe `waker` a wake-up, to be delivered by `courier`.
    pub fn add(&mut self, courier: &Arc<Courier>, waker: Option<Waker>) {
        let Some(waker) = waker else { return };
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, courier)) {
            Some((_, wakers)) => wakers.push(waker),
            None => self.0.push((Arc::clone(courier), vec![waker])),
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        for (courier, wakers) in &mut self.0 {
            courier.post(wakers);
        }
    }
}
