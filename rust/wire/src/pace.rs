//! How slowly a request's bytes may come.

use std::future::Future;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What must have come each time that the limit passes, or all that is left: a kilobyte a second by default.
const LEAST_BYTES: usize = 64 << 10;

/// Watches the bytes of one body. Costs nothing while they are there when they are wanted.
pub struct Pace {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    came: usize,
}

impl Pace {
    pub fn new(limit: Duration) -> Self {
        Self { limit, timer: None, came: 0 }
    }

    pub fn came(&mut self, bytes: usize) {
        self.came = self.came.saturating_add(bytes);
    }

    /// Nothing is awaited for a while, as between the messages of a stream.
    pub fn rest(&mut self) {
        (self.timer, self.came) = (None, 0);
    }

    /// Ready when too little came for too long. To be called when nothing has come.
    pub fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        loop {
            ready!(timer.as_mut().poll(context));
            if std::mem::take(&mut self.came) < LEAST_BYTES {
                return Poll::Ready(());
            }
            timer.as_mut().reset(Instant::now() + self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_late_and_a_slow_stream_is_not() {
        let start = Instant::now();
        let mut pace = Pace::new(LIMIT);
        pace.came(LEAST_BYTES);
        poll_fn(|context| pace.poll_late(context)).await;
        assert_eq!(start.elapsed().as_secs(), 120);
        let mut pace = Pace::new(LIMIT);
        pace.came(LEAST_BYTES - 1);
        poll_fn(|context| pace.poll_late(context)).await;
        assert_eq!(start.elapsed().as_secs(), 180);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_begins_anew() {
        let start = Instant::now();
        let mut pace = Pace::new(LIMIT);
        let late = poll_fn(|context| pace.poll_late(context));
        assert!(tokio::time::timeout(LIMIT / 2, late).await.is_err());
        pace.rest();
        poll_fn(|context| pace.poll_late(context)).await;
        assert_eq!(start.elapsed().as_secs(), 90);
    }
}
