//! What the end of a server waits for: requests that have come as a whole, until their answers are on their way.
//!
//! A connection that is silent, or stopped in the middle of a request, is nothing to wait for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// How long a request that is on its way when the server drains may take to come as a whole, if nothing else is left.
/// Also what an answer that was just made has to get from its task to its connection.
const GRACE: Duration = Duration::from_millis(500);

/// Counts what is in hand.
#[derive(Default)]
pub struct Hands {
    full: AtomicUsize,
    emptied: Notify,
}

/// One thing in hand, as long as this lives.
pub struct InHand(Arc<Hands>);

impl Hands {
    pub fn take(self: &Arc<Self>) -> InHand {
        self.full.fetch_add(1, Ordering::AcqRel);
        InHand(Arc::clone(self))
    }

    /// Resolves when nothing was in hand at the begin and at the end of a grace.
    pub async fn empty(&self) {
        loop {
            self.until_empty().await;
            tokio::time::sleep(GRACE).await;
            if self.full.load(Ordering::Acquire) == 0 {
                return;
            }
        }
    }

    async fn until_empty(&self) {
        loop {
            // Made before the look, so that a change in between is not missed.
            let emptied = self.emptied.notified();
            if self.full.load(Ordering::Acquire) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        if self.0.full.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.emptied.notify_waiters();
        }
    }
}
