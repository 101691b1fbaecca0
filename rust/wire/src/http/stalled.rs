//! Ends connections whose peer does not read: a write that makes no progress for too long is an error.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::in_hand::{Hands, InHand};

/// A stream that gives up writing after `patience` without progress. Costs nothing while the peer reads.
pub struct Impatient<S> {
    stream: S,
    patience: Duration,
    hands: Arc<Hands>,
    stalled: Option<Stalled>,
}

/// How long a peer may refuse to read before a server that stops does not wait for it any more.
pub const WORTH_WAITING: Duration = Duration::from_secs(2);

/// A write that waits for the peer to read.
struct Stalled {
    since: Instant,
    timer: Pin<Box<Sleep>>,
    in_hand: Option<InHand>,
}

impl Stalled {
    fn new(patience: Duration, hands: &Arc<Hands>) -> Self {
        let timer = Box::pin(tokio::time::sleep(patience.min(WORTH_WAITING)));
        Self { since: Instant::now(), timer, in_hand: Some(hands.take()) }
    }

    /// Ready when the patience is at its end.
    fn poll(&mut self, context: &mut Context<'_>, patience: Duration) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.since.elapsed() >= patience {
                return Poll::Ready(());
            }
            self.in_hand = None;
            self.timer.as_mut().reset(self.since + patience);
        }
    }
}

impl<S> Impatient<S> {
    pub fn new(stream: S, patience: Duration, hands: &Arc<Hands>) -> Self {
        Self { stream, patience, hands: Arc::clone(hands), stalled: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let (patience, hands) = (self.patience, &self.hands);
        let stalled = self.stalled.get_or_insert_with(|| Stalled::new(patience, hands));
        stalled.poll(context, patience).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, progress)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, progress)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
