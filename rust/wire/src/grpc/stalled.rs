//! Ends connections whose client does not read a large answer.
//!
//! HTTP/2 lets a client stop reading one answer without the socket ever being full, and large tensors may be lent by
//! their owner until they are sent. So their pieces are tracked: a connection on which some wait and none moves for
//! too long is given up, and everything it holds is given back.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::http::stalled::WORTH_WAITING;
use crate::in_hand::{Hands, InHand};

/// Smaller chunks are copies of our own.
const MIN_TRACKED_BYTES: usize = 8 << 10;

/// What a client must read in the time that it has.
const PIECE_BYTES: usize = 1 << 20;

/// The pieces of large answers that one connection has not sent yet.
pub struct Outbox {
    hands: Arc<Hands>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// How many were sent since the start.
    sent: u64,
    /// While some wait and the client reads.
    in_hand: Option<InHand>,
}

struct Piece {
    bytes: Bytes,
    outbox: Arc<Outbox>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.outbox.change(|state| {
            state.waiting -= 1;
            state.sent += 1;
        });
    }
}

impl Outbox {
    pub fn new(hands: &Arc<Hands>) -> Self {
        Self { hands: Arc::clone(hands), state: Mutex::default(), changed: Notify::default() }
    }

    /// The same bytes, large chunks in tracked pieces.
    pub fn track(self: &Arc<Self>, chunks: VecDeque<Bytes>) -> VecDeque<Bytes> {
        if chunks.iter().all(|chunk| chunk.len() <= MIN_TRACKED_BYTES) {
            return chunks;
        }
        let mut tracked = VecDeque::new();
        for chunk in chunks {
            match chunk.len() > MIN_TRACKED_BYTES {
                true => tracked.extend(self.pieces(chunk)),
                false => tracked.push_back(chunk),
            }
        }
        tracked
    }

    /// A chunk in tracked pieces, however small it is.
    pub fn pieces(self: &Arc<Self>, chunk: Bytes) -> impl Iterator<Item = Bytes> + use<'_> {
        let starts = (0..chunk.len()).step_by(PIECE_BYTES);
        starts.map(move |start| self.piece(chunk.slice(start..chunk.len().min(start + PIECE_BYTES))))
    }

    fn piece(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.change(|state| state.waiting += 1);
        Bytes::from_owner(Piece { bytes, outbox: Arc::clone(self) })
    }

    /// Resolves when pieces wait and none was sent for as long as `patience`. A server that stops waits less.
    pub async fn stalled(&self, patience: Duration) {
        let worth = patience.min(WORTH_WAITING);
        loop {
            let seen = self.until(|state| state.waiting > 0).await;
            let mut moved = pin!(self.until(|state| state.sent != seen));
            if tokio::time::timeout(worth, moved.as_mut()).await.is_ok() {
                continue;
            }
            self.lock().in_hand = None;
            if tokio::time::timeout(patience.saturating_sub(worth), moved).await.is_err() {
                return;
            }
        }
    }

    /// How many were sent when it was reached.
    async fn until(&self, reached: impl Fn(&State) -> bool) -> u64 {
        loop {
            // Made before the look, so that a change in between is not missed.
            let changed = self.changed.notified();
            let sent = {
                let state = self.lock();
                reached(&state).then_some(state.sent)
            };
            if let Some(sent) = sent {
                return sent;
            }
            changed.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let in_hand = (state.waiting > 0).then(|| self.hands.take());
        let before = std::mem::replace(&mut state.in_hand, in_hand);
        drop(state);
        drop(before);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
