//! What the calls of one connection share.

use std::net::SocketAddr;
use std::sync::Arc;

use super::line::Line;
use super::stalled::Outbox;
use crate::connections::{Life, Whole};
use crate::in_hand::{Hands, InHand};

pub struct Link {
    pub life: Arc<Life>,
    pub client: Option<SocketAddr>,
    /// Large answers that were not sent yet.
    pub outbox: Arc<Outbox>,
    /// The order of unary calls.
    pub line: Arc<Line>,
    hands: Arc<Hands>,
}

impl Link {
    pub fn new(life: &Arc<Life>, client: Option<SocketAddr>, hands: &Arc<Hands>) -> Arc<Self> {
        let outbox = Arc::new(Outbox::new(hands));
        Arc::new(Self { life: Arc::clone(life), client, outbox, line: Arc::default(), hands: Arc::clone(hands) })
    }

    /// A message has come as a whole: it is worth waiting for, as long as what this gives lives.
    pub fn in_hand(&self) -> (InHand, Whole) {
        (self.hands.take(), self.life.whole())
    }
}
