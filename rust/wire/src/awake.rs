//! Staying awake for a moment instead of sleeping.
//!
//! A thread that sleeps takes 40 µs to come back, about as long as a small model takes to answer. A client that asks
//! one thing after the other pays that at every hand-over, while the server has nothing else to do.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// What add/sub takes from its arrival to its answer when nothing else runs (110 µs), and some; a client on the same
/// machine takes as long to ask again.
pub const AWAKE: Duration = Duration::from_micros(150);

/// `AWAKE`, and what a sleeping thread takes to come back.
const BRISK: Duration = Duration::from_micros(200);

/// Looks at the clock and at what is waited for are some 0.5 µs apart.
const PAUSES: usize = 20;

/// Whether another thread can work while this one stays awake.
pub fn has_spare_core() -> bool {
    static SPARE: OnceLock<bool> = OnceLock::new();
    *SPARE.get_or_init(|| available_parallelism().is_ok_and(|cores| cores.get() > 1))
}

/// How calls came to one place of late: only while they come one by one, each soon after the last, is the next one
/// waited for awake. So neither an idle server nor a busy one spends time on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse(bool);

impl Pulse {
    /// So many came at once, after so long.
    pub fn came(&mut self, count: usize, after: Duration) {
        self.0 = count == 1 && after < BRISK;
    }

    pub fn is_brisk(self) -> bool {
        self.0
    }
}

/// Lets one thread at a time stay awake.
#[derive(Default)]
pub struct Vigil(AtomicBool);

impl Vigil {
    /// Until `ready` says so, but no longer than a moment, or `limit`. Returns at once where another thread is at it, or
    /// has no core.
    pub fn stay_awake(&self, limit: Duration, ready: impl Fn() -> bool) {
        if !has_spare_core() || self.0.swap(true, Ordering::Relaxed) {
            return;
        }
        let until = Instant::now() + AWAKE.min(limit);
        while !ready() && Instant::now() < until {
            (0..PAUSES).for_each(|_| spin_loop());
        }
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn only_one_by_one_and_soon_is_brisk() {
        let soon = AWAKE;
        for (count, after, brisk) in [(1, soon, true), (1, BRISK, false), (2, soon, false), (0, soon, false)] {
            let mut pulse = Pulse::default();
            assert!(!pulse.is_brisk());
            pulse.came(count, after);
            assert_eq!(pulse.is_brisk(), brisk, "{count} after {after:?}");
        }
    }

    #[test]
    fn one_thread_at_a_time_and_none_for_ever() {
        let vigil = Vigil::default();
        let looks = Cell::new(0);
        vigil.stay_awake(AWAKE, || {
            looks.set(looks.get() + 1);
            let inner = Cell::new(0);
            vigil.stay_awake(AWAKE, || {
                inner.set(inner.get() + 1);
                true
            });
            assert_eq!(inner.get(), 0, "somebody is at it");
            looks.get() == 3
        });
        let expected = if has_spare_core() { 1..=3 } else { 0..=0 };
        assert!(expected.contains(&looks.get()));
        vigil.stay_awake(Duration::MAX, || false); // comes back
    }
}
