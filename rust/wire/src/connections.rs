//! Which connections are open, and which of them gives way when there are too many.
//!
//! A connection costs a descriptor and memory, whether its client uses it or not. Where the limit is reached, the one
//! without a whole request that was idle longest is closed for the newcomer: so thousands of silent connections, or
//! of requests that never end, keep nobody out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::wire::monotonic_ns;

pub struct Connections {
    limit: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    last_key: u64,
    lives: HashMap<u64, Arc<Life>>,
}

/// A connection's place, given up when dropped.
pub struct Place {
    connections: Arc<Connections>,
    key: u64,
    pub life: Arc<Life>,
}

impl Connections {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// A place for a new connection; None when all others have a request in hand.
    pub fn admit(self: &Arc<Self>) -> Option<Place> {
        let mut open = self.lock();
        if open.lives.len() >= self.limit && !open.close_idlest() {
            return None;
        }
        open.last_key += 1;
        let (key, life) = (open.last_key, Arc::new(Life::default()));
        open.lives.insert(key, Arc::clone(&life));
        drop(open);
        Some(Place { connections: Arc::clone(self), key, life })
    }

    /// Close the connection that was idle longest: the process has no descriptors left.
    pub fn make_room(&self) {
        self.lock().close_idlest();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn close_idlest(&mut self) -> bool {
        let idle = self.lives.iter().filter(|(_, life)| life.whole.load(Ordering::Relaxed) == 0);
        let idlest = idle.min_by_key(|(_, life)| life.quiet_since_ns.load(Ordering::Relaxed)).map(|(&key, _)| key);
        let Some(life) = idlest.and_then(|key| self.lives.remove(&key)) else { return false };
        life.gives_way.notify_one();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().lives.remove(&self.key);
    }
}

/// What one connection is doing.
pub struct Life {
    /// Requests since its start.
    begun: AtomicU64,
    /// Those whose head has come and that have no answer yet.
    unanswered: AtomicUsize,
    /// Those of them that have come as a whole.
    whole: AtomicUsize,
    /// Since when there is none without an answer.
    quiet_since_ns: AtomicU64,
    gives_way: Notify,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            unanswered: AtomicUsize::new(0),
            whole: AtomicUsize::new(0),
            quiet_since_ns: AtomicU64::new(monotonic_ns()),
            gives_way: Notify::new(),
        }
    }
}

impl Life {
    /// The head of a request has come.
    pub fn request(self: &Arc<Self>) -> Unanswered {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Unanswered(Arc::clone(self))
    }

    /// The request has come as a whole.
    pub fn whole(self: &Arc<Self>) -> Whole {
        self.whole.fetch_add(1, Ordering::Relaxed);
        Whole(Arc::clone(self))
    }

    pub fn requests_begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub fn is_quiet(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) == 0
    }

    /// Resolves when the connection should end: it was quiet for as long as `limit` (zero for any time), or another one
    /// needs its place.
    pub async fn over(&self, limit: Duration) {
        tokio::select! {
            () = self.gives_way.notified() => {}
            () = self.quiet_for(limit) => {}
        }
    }

    async fn quiet_for(&self, limit: Duration) {
        if limit.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let left = limit.saturating_sub(self.quiet_time());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn quiet_time(&self) -> Duration {
        if !self.is_quiet() {
            return Duration::ZERO;
        }
        Duration::from_nanos(monotonic_ns().saturating_sub(self.quiet_since_ns.load(Ordering::Relaxed)))
    }
}

/// A request without an answer, as long as this lives.
pub struct Unanswered(Arc<Life>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.quiet_since_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that has come as a whole, as long as this lives: its connection does not give way.
pub struct Whole(Arc<Life>);

impl Drop for Whole {
    fn drop(&mut self) {
        self.0.whole.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_idlest_gives_way_and_never_one_that_works() {
        let connections = Connections::new(2);
        let first = connections.admit().unwrap();
        let second = connections.admit().unwrap();
        let working = first.life.whole();
        let third = connections.admit().unwrap();
        second.life.over(Duration::ZERO).await;
        drop(second);
        let _also_working = third.life.whole();
        assert!(connections.admit().is_none());
        drop(working);
        assert!(connections.admit().is_some());
        first.life.over(Duration::ZERO).await;
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_has_ended() {
        let connections = Connections::new(1);
        let one = connections.admit().unwrap();
        let _working = one.life.whole();
        assert!(connections.admit().is_none());
        drop(one);
        assert!(connections.admit().is_some());
    }

    #[tokio::test]
    async fn only_a_quiet_connection_is_over_by_time() {
        let life = Arc::new(Life::default());
        let request = life.request();
        assert!(life.quiet_time().is_zero());
        drop(request);
        life.over(Duration::from_millis(1)).await;
        assert!(life.is_quiet());
    }
}
