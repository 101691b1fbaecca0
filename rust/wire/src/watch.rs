//! When the answer to a call went out, for those who ask: traces do, of few calls.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::access::Entry;
use crate::call::Ticket;
use crate::inbox::Item;
use crate::wire::monotonic_ns;

/// Whether requests are stamped when they begin to come; reading the clock costs more than looking here.
#[derive(Default)]
pub struct Stamping(AtomicBool);

impl Stamping {
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`; 0 while nobody wants them.
    pub fn now(&self) -> u64 {
        if self.0.load(Ordering::Relaxed) {
            monotonic_ns()
        } else {
            0
        }
    }
}

const UNASKED: u8 = 0;
const ASKED: u8 = 1;
const SENDING: u8 = 2;
const OVER: u8 = 3;

/// Of one call: whether somebody wants to know, and what there is to know.
#[derive(Default)]
pub struct Watch {
    state: AtomicU8,
    started_ns: AtomicU64,
    ended_ns: AtomicU64,
}

impl Watch {
    /// Have `Item::Sent` told once the call's connection is done with it. False when it is done already.
    pub fn ask(&self) -> bool {
        self.go(UNASKED, ASKED)
    }

    /// When the answer began to be sent, and when it had been handed to the connection, once that is over; (0, 0) for one
    /// that was not sent.
    pub fn sent(&self) -> Option<(u64, u64)> {
        if self.state.load(Ordering::Acquire) != OVER {
            return None;
        }
        let times = (self.started_ns.load(Ordering::Relaxed), self.ended_ns.load(Ordering::Relaxed));
        Some(if times.1 > 0 { times } else { (0, 0) })
    }

    fn begin(&self) -> bool {
        // Nobody asks once there is an answer, so the clock is read for those only who have.
        if self.state.load(Ordering::Acquire) != ASKED {
            return false;
        }
        self.started_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.go(ASKED, SENDING)
    }

    fn end(&self) {
        self.ended_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.state.store(OVER, Ordering::Release);
    }

    /// The connection gives the call up. True when somebody wants to know it.
    fn leave(&self) -> bool {
        self.go(ASKED, OVER) || (!self.go(UNASKED, OVER) && self.go(ASKED, OVER))
    }

    fn go(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Ticket {
    /// The answer begins to be sent: None when nobody asked.
    pub fn sending(self: &Arc<Self>) -> Option<Sending> {
        self.watch.begin().then(|| Sending(Arc::clone(self)))
    }

    /// The connection has done with the call without sending an answer, unless that is being sent.
    pub(crate) fn leave(&self) {
        if self.watch.leave() {
            self.tell(Item::Sent(self.key()));
        }
    }
}

/// An answer on its way out: sent when this is dropped.
pub struct Sending(Arc<Ticket>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.watch.end();
        self.0.tell(Item::Sent(self.0.key()));
    }
}

/// Who is told what goes out with a body, and, by being dropped, that it has gone.
pub enum Witness {
    Sending(#[allow(dead_code)] Sending), // Kept until the end, which is what it tells.
    Access(Box<Entry>),
}

/// A body with a witness.
pub struct Watched<B> {
    body: B,
    witness: Witness,
}

impl<B> Watched<B> {
    pub fn new(body: B, witness: Witness) -> Box<Self> {
        Box::new(Self { body, witness })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let (Some(Ok(frame)), Witness::Access(entry)) = (&frame, &mut self.witness) {
            entry.sends(frame);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_told_of_once_whatever_comes_first() {
        let sent = Watch::default();
        assert!(sent.ask() && sent.begin() && !sent.leave());
        assert_eq!(sent.sent(), None, "it is on its way");
        sent.end();
        assert!(sent.sent().is_some_and(|(start, end)| 0 < start && start <= end));
        assert!(!sent.leave());

        let left = Watch::default();
        assert!(left.ask() && left.leave());
        assert!(!left.leave() && !left.begin());
        assert_eq!(left.sent(), Some((0, 0)));
    }

    #[test]
    fn nobody_is_told_who_did_not_ask() {
        let watch = Watch::default();
        assert!(!watch.begin() && !watch.leave());
        assert!(!watch.ask(), "the connection has left");
    }

    #[test]
    fn stamps_are_taken_while_somebody_wants_them() {
        let stamping = Stamping::default();
        assert_eq!(stamping.now(), 0);
        stamping.set(true);
        assert!(stamping.now() > 0);
    }
}
