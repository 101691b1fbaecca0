//! Where arrived calls wait to be taken: bounded, in order, together with the cancellations of calls taken earlier.
//!
//! A taker either takes everything (`take`) or waits for the calls of one route (`take_route`). A call for a route
//! is given to exactly one thread that waits there, and goes to `take` when none does. So a call never lies where
//! nobody looks, and a waiter that times out finds what it was given meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::counters::Counters;
use crate::lend::Owner;
use crate::table::Route;

/// What `take` returns.
pub enum Item {
    Call(Call),
    /// The key of a call taken earlier whose client has gone or whose deadline has passed.
    Cancelled(u64),
}

/// What `take` returns beside the items: owners of lent memory, to be dropped where that is allowed.
pub type Retired = Vec<Owner>;

/// One thread that waits at a route. Its bell is its own, so that exactly it is woken.
#[derive(Default)]
struct Waiter {
    bell: Condvar,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
enum Outcome {
    #[default]
    Waiting,
    Given(Call),
    Woken,
}

#[derive(Default)]
struct RouteState {
    waiters: VecDeque<Arc<Waiter>>,
    /// Wake-ups that came before their waiter.
    wakes: usize,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    calls: usize,
    takers: usize,
    routes: HashMap<Route, RouteState>,
    retired: Retired,
    closed: bool,
}

pub struct Inbox {
    max_calls: usize,
    counters: Arc<Counters>,
    state: Mutex<State>,
    arrived: Condvar,
}

impl Inbox {
    /// Room for `max_calls` calls; cancellations and retired memory are bounded by the calls they stem from.
    pub fn new(max_calls: usize, counters: Arc<Counters>) -> Arc<Self> {
        let state = Mutex::new(State::default());
        Arc::new(Self { max_calls, counters, state, arrived: Condvar::new() })
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A new call, for whoever waits at `route`, else for `take`. Given back when the inbox is full or closed.
    pub fn push(&self, call: Call, route: Route) -> Result<(), Call> {
        let mut state = self.lock();
        if state.closed || state.calls >= self.max_calls {
            return Err(call);
        }
        if let Some(waiter) = state.routes.get_mut(&route).and_then(|waiting| waiting.waiters.pop_front()) {
            drop(state);
            waiter.settle(Outcome::Given(call));
            return Ok(());
        }
        state.calls += 1;
        self.counters.waiting_calls.add(1);
        state.items.push_back(Item::Call(call));
        self.ring(state);
        Ok(())
    }

    pub(crate) fn push_cancelled(&self, key: u64) {
        let mut state = self.lock();
        state.items.push_back(Item::Cancelled(key));
        self.ring(state);
    }

    /// Lent memory that is not needed any more; its owner is dropped by the next thread that takes.
    pub fn retire(&self, owner: Owner) {
        let mut state = self.lock();
        state.retired.push(owner);
        self.ring(state);
    }

    /// Up to `max_items` of what has arrived, in order. Waits until there is something, retired memory included, or
    /// the time is over; empty then, and after `close`.
    pub fn take(&self, max_items: usize, timeout: Duration) -> (Vec<Item>, Retired) {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        while state.items.is_empty() && state.retired.is_empty() && !state.closed {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            state.takers += 1;
            state = match left {
                Some(left) => self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.takers -= 1;
        }
        self.collect(state, max_items)
    }

    /// As `take`, but returns at once.
    pub fn try_take(&self, max_items: usize) -> (Vec<Item>, Retired) {
        self.collect(self.lock(), max_items)
    }

    fn collect(&self, mut state: MutexGuard<'_, State>, max_items: usize) -> (Vec<Item>, Retired) {
        let retired = std::mem::take(&mut state.retired);
        let count = max_items.min(state.items.len());
        let taken: Vec<Item> = state.items.drain(..count).collect();
        let calls = taken.iter().filter(|item| matches!(item, Item::Call(_))).count();
        state.calls -= calls;
        self.counters.waiting_calls.sub(calls as u64);
        // Something is left behind: the next taker must know.
        if state.items.is_empty() {
            drop(state);
        } else {
            self.ring(state);
        }
        // Calls whose client went while they waited are dropped here, outside the lock.
        let wanted = |item: &Item| !matches!(item, Item::Call(call) if !call.mark_taken());
        (taken.into_iter().filter(wanted).collect(), retired)
    }

    /// Wait for a call of this route. None after the time, `wake_route` or `close`. Retired memory is handed over too.
    pub fn take_route(&self, route: Route, timeout: Duration) -> (Option<Call>, Retired) {
        let waiter = Arc::new(Waiter::default());
        {
            let mut state = self.lock();
            let retired = std::mem::take(&mut state.retired);
            let closed = state.closed;
            let waiting = state.routes.entry(route).or_default();
            if waiting.wakes > 0 || closed || timeout.is_zero() || !retired.is_empty() {
                waiting.wakes = waiting.wakes.saturating_sub(1);
                return (None, retired);
            }
            waiting.waiters.push_back(Arc::clone(&waiter));
        }
        if waiter.wait(timeout) {
            return (waiter.given(), Vec::new());
        }
        self.leave(route, &waiter);
        (waiter.given(), Vec::new())
    }

    /// The time is over. If somebody has picked this waiter already, its outcome is on the way: wait for that.
    fn leave(&self, route: Route, waiter: &Arc<Waiter>) {
        let mut state = self.lock();
        let waiting = state.routes.entry(route).or_default();
        let before = waiting.waiters.len();
        waiting.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        let picked = waiting.waiters.len() == before;
        drop(state);
        if picked {
            waiter.wait(Duration::MAX);
        }
    }

    /// Make `count` waits at the route return, the present ones or the next.
    pub fn wake_route(&self, route: Route, count: usize) {
        let mut state = self.lock();
        let waiting = state.routes.entry(route).or_default();
        let now = count.min(waiting.waiters.len());
        let woken: Vec<_> = waiting.waiters.drain(..now).collect();
        waiting.wakes += count - now;
        drop(state);
        woken.iter().for_each(|waiter| waiter.settle(Outcome::Woken));
    }

    /// How many threads wait at the route now.
    pub fn waiters(&self, route: Route) -> usize {
        self.lock().routes.get(&route).map_or(0, |waiting| waiting.waiters.len())
    }

    /// Forget wake-ups for routes that are not published any more.
    pub fn keep_routes(&self, published: impl Fn(Route) -> bool) {
        self.lock().routes.retain(|&route, waiting| published(route) || !waiting.waiters.is_empty());
    }

    /// Wake all takers, for good. What still waits is dropped, and so answered.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let items = std::mem::take(&mut state.items);
        self.counters.waiting_calls.sub(state.calls as u64);
        state.calls = 0;
        let waiters: Vec<_> = state.routes.drain().flat_map(|(_, waiting)| waiting.waiters).collect();
        drop(state);
        self.arrived.notify_all();
        waiters.iter().for_each(|waiter| waiter.settle(Outcome::Woken));
        drop(items);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waking is a system call; it is made only when somebody sleeps.
    fn ring(&self, state: MutexGuard<'_, State>) {
        let sleeping = state.takers > 0;
        drop(state);
        if sleeping {
            self.arrived.notify_one();
        }
    }
}

impl Waiter {
    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, outcome: Outcome) {
        *self.lock() = outcome;
        self.bell.notify_one();
    }

    /// True when there is an outcome, false when the time is over.
    fn wait(&self, timeout: Duration) -> bool {
        let waiting = |outcome: &mut Outcome| matches!(outcome, Outcome::Waiting);
        let guard = self.lock();
        let result = self.bell.wait_timeout_while(guard, timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        !result.1.timed_out()
    }

    fn given(&self) -> Option<Call> {
        match std::mem::replace(&mut *self.lock(), Outcome::Woken) {
            Outcome::Given(call) if call.mark_taken() => Some(call),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::call::{Arrival, ParsedCall, Protocol};
    use crate::courier::Wakes;
    use crate::reply::{Reply, ReplySink};

    struct Nowhere;

    impl ReplySink for Nowhere {
        fn send(&self, _: &crate::call::Request, _: Reply, _: &mut Wakes) {}
    }

    fn inbox(max_calls: usize) -> Arc<Inbox> {
        Inbox::new(max_calls, Arc::default())
    }

    fn call(inbox: &Arc<Inbox>) -> Call {
        let headers = http::HeaderMap::new();
        let arrival = Arrival { protocol: Protocol::Http, arrival_ns: 1, deadline_ns: 0, headers, permit: None };
        Call::new(ParsedCall::default(), arrival, Box::new(Nowhere), inbox)
    }

    fn keys(items: &[Item]) -> Vec<u64> {
        let key = |item: &Item| match item {
            Item::Call(call) => call.request.key,
            Item::Cancelled(key) => *key,
        };
        items.iter().map(key).collect()
    }

    /// A waiter that is known to wait.
    fn wait_at(inbox: &Arc<Inbox>, route: Route, timeout: Duration) -> mpsc::Receiver<Option<u64>> {
        let (sender, receiver) = mpsc::channel();
        let (waiting, before) = (Arc::clone(inbox), inbox.waiters(route));
        std::thread::spawn(move || {
            let (call, _) = waiting.take_route(route, timeout);
            sender.send(call.map(|call| call.request.key)).unwrap();
        });
        while inbox.waiters(route) == before {
            std::thread::yield_now();
        }
        receiver
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn calls_are_taken_in_order_and_in_portions() {
        let inbox = inbox(3);
        let calls = [call(&inbox), call(&inbox), call(&inbox)];
        let expected: Vec<u64> = calls.iter().map(|call| call.request.key).collect();
        calls.into_iter().for_each(|call| assert!(inbox.push(call, 0).is_ok()));
        assert!(inbox.push(call(&inbox), 0).is_err(), "there is room for three");
        let (first, _) = inbox.take(2, LONG);
        let (rest, _) = inbox.take(2, LONG);
        assert_eq!([keys(&first), keys(&rest)].concat(), expected);
        assert!(inbox.take(2, Duration::ZERO).0.is_empty());
    }

    #[test]
    fn a_waiting_thread_gets_the_next_call_and_take_the_one_after() {
        let inbox = inbox(8);
        let waiter = wait_at(&inbox, 5, LONG);
        let (first, second) = (call(&inbox), call(&inbox));
        let expected = (first.request.key, second.request.key);
        assert!(inbox.push(first, 5).is_ok());
        assert!(inbox.push(second, 5).is_ok());
        assert_eq!(waiter.recv_timeout(LONG).unwrap(), Some(expected.0));
        assert_eq!(keys(&inbox.take(8, LONG).0), [expected.1]);
    }

    #[test]
    fn calls_of_other_routes_pass_a_waiter_by() {
        let inbox = inbox(8);
        let waiter = wait_at(&inbox, 5, LONG);
        assert!(inbox.push(call(&inbox), 6).is_ok());
        assert_eq!(inbox.take(8, LONG).0.len(), 1);
        inbox.wake_route(5, 1);
        assert_eq!(waiter.recv_timeout(LONG).unwrap(), None);
    }

    #[test]
    fn wakes_are_kept_for_waiters_to_come() {
        let inbox = inbox(8);
        inbox.wake_route(5, 1);
        assert!(inbox.take_route(5, LONG).0.is_none());
        assert!(inbox.take_route(5, Duration::ZERO).0.is_none());
        let waiters = [wait_at(&inbox, 5, LONG), wait_at(&inbox, 5, LONG)];
        inbox.wake_route(5, 3);
        waiters.iter().for_each(|waiter| assert_eq!(waiter.recv_timeout(LONG).unwrap(), None));
        assert!(inbox.take_route(5, LONG).0.is_none(), "the third wake");
    }

    #[test]
    fn a_call_that_comes_after_the_time_goes_to_take() {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, Duration::from_millis(1)).0.is_none());
        assert!(inbox.push(call(&inbox), 5).is_ok());
        assert_eq!(inbox.take(8, LONG).0.len(), 1);
    }

    #[test]
    fn cancelled_calls_are_named_if_taken_and_skipped_if_not() {
        let inbox = inbox(8);
        let (taken, waiting) = (call(&inbox), call(&inbox));
        let (taken_guard, waiting_guard) = (taken.guard(), waiting.guard());
        assert!(inbox.push(taken, 0).is_ok());
        let (held, _) = inbox.take(8, LONG);
        assert!(inbox.push(waiting, 0).is_ok());
        drop((taken_guard, waiting_guard));
        assert_eq!(keys(&inbox.take(8, LONG).0), keys(&held));
        assert_eq!(inbox.counters().unsettled_calls.get(), 1);
    }

    #[test]
    fn closing_wakes_everybody_and_refuses_what_comes_later() {
        let inbox = inbox(8);
        let waiter = wait_at(&inbox, 5, LONG);
        inbox.close();
        assert_eq!(waiter.recv_timeout(LONG).unwrap(), None);
        assert!(inbox.take(8, LONG).0.is_empty());
        assert!(inbox.take_route(5, LONG).0.is_none());
        assert!(inbox.push(call(&inbox), 0).is_err());
    }
}
