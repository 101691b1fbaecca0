//! Request bodies that come in pieces, and a runtime to read them in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::{Builder, Runtime};

/// A body of pieces, an empty one and a wait between each two.
pub struct Pieces {
    to_come: VecDeque<Bytes>,
    left: u64,
    announced: bool,
    came: bool,
}

impl Pieces {
    /// In pieces of `size` bytes; 0 for one piece. The length is told beforehand when it is `announced`.
    pub fn of(bytes: &[u8], size: usize, announced: bool) -> Self {
        let size = if size == 0 { bytes.len().max(1) } else { size };
        let to_come = bytes.chunks(size).flat_map(|piece| [Bytes::copy_from_slice(piece), Bytes::new()]).collect();
        Self { to_come, left: bytes.len() as u64, announced, came: false }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.came = !self.came;
        if self.came {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = self.to_come.pop_front();
        self.left -= piece.as_ref().map_or(0, Bytes::len) as u64;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        if self.announced {
            SizeHint::with_exact(self.left)
        } else {
            SizeHint::default()
        }
    }
}

/// Run a future to its end on this thread.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: RefCell<Runtime> =
            RefCell::new(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    }
    RUNTIME.with_borrow(|runtime| runtime.block_on(future))
}
