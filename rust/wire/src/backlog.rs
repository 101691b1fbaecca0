//! How far a client is behind with the answers to one call: what was made and its connection has not taken yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many messages may wait before their maker should. Small ones come in bursts, and waking their maker costs more
/// than they do.
const MAX_MESSAGES: usize = 64;

const MAX_BYTES: usize = 1 << 20;

/// Has room until too much waits, and then again when half of that was taken: so its maker is woken rarely.
#[derive(Default)]
pub struct Backlog(Mutex<State>);

#[derive(Default)]
struct State {
    messages: usize,
    bytes: usize,
    is_full: bool,
}

impl Backlog {
    pub fn add(&self, bytes: usize) {
        let mut state = self.lock();
        state.messages += 1;
        state.bytes += bytes;
        state.is_full |= state.messages >= MAX_MESSAGES || state.bytes >= MAX_BYTES;
    }

    /// One message has been taken. True when there is room again that was not there before.
    #[must_use = "whoever waits for room must be told"]
    pub fn remove(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        state.messages -= 1;
        state.bytes -= bytes;
        let relieved = state.is_full && state.messages < MAX_MESSAGES / 2 && state.bytes < MAX_BYTES / 2;
        state.is_full &= !relieved;
        relieved
    }

    pub fn has_room(&self) -> bool {
        !self.lock().is_full
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_told_once_and_late() {
        let backlog = Backlog::default();
        (1..MAX_MESSAGES).for_each(|_| backlog.add(10));
        assert!(backlog.has_room());
        backlog.add(10);
        assert!(!backlog.has_room());
        let told: Vec<bool> = (0..MAX_MESSAGES).map(|_| backlog.remove(10)).collect();
        assert_eq!(told.iter().position(|&told| told), Some(MAX_MESSAGES / 2));
        assert_eq!(told.iter().filter(|&&told| told).count(), 1);
        assert!(backlog.has_room());
    }

    #[test]
    fn bytes_count_too() {
        let backlog = Backlog::default();
        backlog.add(MAX_BYTES - 1);
        assert!(backlog.has_room());
        backlog.add(1);
        assert!(!backlog.has_room());
        assert!(!backlog.remove(1));
        assert!(!backlog.has_room(), "still more than half");
        assert!(backlog.remove(MAX_BYTES - 1));
    }
}
