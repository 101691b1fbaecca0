//! What the wire has to say to whoever reads the log. Bounded: more than that is dropped.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const MAX_WAITING: usize = 64;

/// A detail of this kind is told once in this time.
const DETAIL_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Detail,
    Notice,
    Error,
}

impl Weight {
    pub fn name(self) -> &'static str {
        match self {
            Self::Detail => "detail",
            Self::Notice => "notice",
            Self::Error => "error",
        }
    }
}

pub type Remark = (Weight, String);

#[derive(Default)]
pub struct Remarks {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Remark>,
    last_detail: Option<Instant>,
    closed: bool,
}

impl Remarks {
    pub fn say(&self, weight: Weight, text: String) {
        let mut state = self.lock();
        if weight == Weight::Detail {
            let now = Instant::now();
            if state.last_detail.is_some_and(|last| now.duration_since(last) < DETAIL_PAUSE) {
                return;
            }
            state.last_detail = Some(now);
        }
        if state.waiting.len() < MAX_WAITING {
            state.waiting.push_back((weight, text));
            self.arrived.notify_one();
        }
    }

    /// Waits until there is something; empty after the time and when closed.
    pub fn take(&self, timeout: Duration) -> Vec<Remark> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let waited = self.arrived.wait_timeout_while(self.lock(), timeout, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting.drain(..).collect()
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_come_once_in_a_while_and_the_rest_is_bounded() {
        let remarks = Remarks::default();
        remarks.say(Weight::Detail, "first".to_owned());
        remarks.say(Weight::Detail, "second".to_owned());
        (0..100).for_each(|number| remarks.say(Weight::Notice, number.to_string()));
        let taken = remarks.take(Duration::ZERO);
        assert_eq!((taken[0].1.as_str(), taken[1].1.as_str(), taken.len()), ("first", "0", MAX_WAITING));
        remarks.close();
        assert!(remarks.take(Duration::from_secs(60)).is_empty());
    }
}
