//! How many bytes of request bodies may be held at one time, over all connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// The budget itself. Bodies take from it as they are read and give back when their last reader drops them.
pub struct Budget {
    limit: u64,
    patience: Duration,
    used: AtomicU64,
    freed: Notify,
}

impl Budget {
    pub fn new(limit: u64, patience: Duration) -> Arc<Self> {
        Arc::new(Self { limit, patience, used: AtomicU64::new(0), freed: Notify::new() })
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn try_take(&self, amount: u64) -> bool {
        let fits = |used: u64| used.checked_add(amount).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fits).is_ok()
    }
}

/// Bytes taken from a budget; given back on drop.
pub struct Permit {
    budget: Arc<Budget>,
    amount: u64,
}

impl Permit {
    pub fn empty(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), amount: 0 }
    }

    /// Take `amount` more if they are free now.
    pub fn try_grow(&mut self, amount: usize) -> bool {
        let taken = self.budget.try_take(amount as u64);
        if taken {
            self.amount += amount as u64;
        }
        taken
    }

    /// As `grow`, by what is missing to `total`.
    pub async fn cover(&mut self, total: usize) -> bool {
        let missing = (total as u64).saturating_sub(self.amount);
        missing == 0 || self.grow(usize::try_from(missing).unwrap_or(usize::MAX)).await
    }

    /// Take `amount` more, waiting for others to give back. False when that took longer than the budget's patience.
    pub async fn grow(&mut self, amount: usize) -> bool {
        if self.try_grow(amount) {
            return true;
        }
        let budget = Arc::clone(&self.budget);
        let wait = async {
            loop {
                // Registered before the second look, so that a give-back in between is not missed.
                let freed = budget.freed.notified();
                if self.try_grow(amount) {
                    return;
                }
                freed.await;
            }
        };
        tokio::time::timeout(budget.patience, wait).await.is_ok()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.budget.used.fetch_sub(self.amount, Ordering::AcqRel);
            self.budget.freed.notify_waiters();
        }
    }
}
