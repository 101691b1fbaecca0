//! What every connection of a server shares.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::access::AccessLog;
use crate::awake::has_spare_core;
use crate::budget::Budget;
use crate::call::{Call, ParsedCall};
use crate::connections::Connections;
use crate::control::ControlInbox;
use crate::counters::Counters;
use crate::courier::Wakes;
use crate::gateway::Gateways;
use crate::http::pool::Pool;
use crate::in_hand::Hands;
use crate::inbox::Inbox;
use crate::load::Load;
use crate::options::Options;
use crate::remarks::Remarks;
use crate::reply::Reply;
use crate::shelf::Shelf;
use crate::status::Code;
use crate::table::{Entry, Published, Route, Table};
use crate::watch::Stamping;

/// How far a server is on its way out. Only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    /// Answers carry `Connection: close`, HTTP/2 connections get GOAWAY.
    Exiting,
    /// Listening sockets are closed.
    NotAccepting,
    /// Connections end as soon as nothing is in flight on them.
    Draining,
    /// Everything ends now.
    Closed,
}

pub struct Wire {
    pub options: Options,
    pub counters: Arc<Counters>,
    pub inbox: Arc<Inbox>,
    pub control: Arc<ControlInbox>,
    pub table: Table,
    pub budget: Arc<Budget>,
    pub connections: Arc<Connections>,
    /// Memory for long bodies.
    pub bodies: Arc<Pool>,
    /// What the end waits for.
    pub hands: Arc<Hands>,
    /// What balancers are told of the server's load.
    pub load: Load,
    /// What the paths of gateways stand for.
    pub gateways: Gateways,
    /// For the log.
    pub remarks: Arc<Remarks>,
    pub phase: watch::Sender<Phase>,
    pub stamping: Stamping,
    /// None when no requests are recorded.
    pub access: Option<Arc<AccessLog>>,
    /// Then none is answered from a shelf: whoever follows requests wants to see each, and while models change what lies
    /// there may be of one that is replaced.
    pub shelves_closed: AtomicBool,
}

impl Wire {
    pub fn new(options: Options) -> Arc<Self> {
        let counters = Arc::new(Counters::default());
        Arc::new(Self {
            inbox: Inbox::new(options.inbox_max_calls, Arc::clone(&counters)),
            control: ControlInbox::new(options.inbox_max_calls),
            budget: Budget::new(options.body_budget_bytes, Duration::from_millis(options.body_wait_ms)),
            connections: Connections::new(options.max_connections),
            bodies: Arc::default(),
            hands: Arc::default(),
            table: Table::default(),
            load: Load::default(),
            gateways: Gateways::default(),
            remarks: Arc::default(),
            phase: watch::Sender::new(Phase::Running),
            stamping: Stamping::default(),
            access: options.access.map(AccessLog::new),
            shelves_closed: AtomicBool::new(false),
            counters,
            options,
        })
    }

    /// Put a call where it will be taken, by the route that is published for its model. A full inbox refuses it. What
    /// lies on the shelf of its model is its answer at once.
    pub fn submit(&self, call: Call) {
        let entry = self.entry(&call.request.parsed);
        if entry.shelf.as_ref().is_some_and(|shelf| entry.ready && self.answer_from(shelf, &call)) {
            return;
        }
        if let Err(refused) = self.inbox.push(call, entry.route) {
            let message = "the server has more requests waiting than it may hold, or is shutting down";
            refused.fail(Code::UNAVAILABLE, message, &mut Wakes::default());
        }
    }

    fn answer_from(&self, shelf: &Shelf, call: &Call) -> bool {
        if self.shelves_closed.load(Ordering::Relaxed) || *self.phase.borrow() != Phase::Running {
            return false;
        }
        let found = shelf.find(&call.request);
        let is_found = found.is_some();
        if let Some(response) = found {
            call.reply(Reply::Ok(response), &mut Wakes::default());
        }
        is_found
    }

    /// What is published of the model that a call is for.
    pub fn entry(&self, parsed: &ParsedCall) -> Entry {
        self.table.read().model(&parsed.model_name, &parsed.model_version).unwrap_or_default()
    }

    /// At most one call is in flight, and whoever answers it has a core of its own.
    pub fn is_nearly_idle(&self) -> bool {
        has_spare_core() && self.counters.unsettled_calls.get() <= 1
    }

    /// Replace the table. Routes that are no longer in it are forgotten, once nobody waits there.
    pub fn publish(&self, published: Published) {
        self.table.publish(published);
        let table = self.table.read();
        let known: HashSet<Route> = table.routes().collect();
        self.inbox.keep_routes(|route| known.contains(&route));
    }

    /// Go to a later phase; going back is ignored.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|current| {
            let later = phase > *current;
            *current = phase.max(*current);
            later
        });
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of Python's `time.monotonic_ns`.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result; the clock exists on every supported system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
