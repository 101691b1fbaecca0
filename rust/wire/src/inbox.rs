//! Where arrived calls wait to be taken: bounded, in order, together with the cancellations of calls taken earlier.
//!
//! A taker either takes everything (`take`) or the calls of one route (`take_route`). The calls of a route that
//! threads attend gather at the route: one that waits there is woken; one that is busy is given a moment to come back
//! and take them all at once, which spares a hand-over between threads for each call. If nobody comes in that moment,
//! the calls go to `take`. So a call never lies where nobody looks.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::awake::{Pulse, Vigil};
use crate::call::Call;
use crate::counters::Counters;
use crate::lend::Owner;
use crate::table::Route;

/// What `take` returns.
pub enum Item {
    Call(Call),
    /// The key of a call taken earlier whose client has gone or whose deadline has passed.
    Cancelled(u64),
    /// The key of a call taken earlier whose client has caught up: it had no room for more responses, and has it now.
    Room(u64),
    /// The key of a watched call: its connection is done with it, and has sent its answer or never will.
    Sent(u64),
}

/// What `take` returns beside the items: owners of lent memory, to be dropped where that is allowed.
pub type Retired = Vec<Owner>;

/// How long the threads of a route may be busy before its calls go to `take`. Long enough for the execution of a
/// small batch (0.1 ms), short against what a refusal or a cancellation may take to be noticed.
const GRACE: Duration = Duration::from_millis(1);

/// One thread that waits at a route. Its bell is its own, so that exactly it is woken.
#[derive(Default)]
struct Waiter {
    bell: Condvar,
    woken: Mutex<bool>,
}

#[derive(Default)]
struct RouteState {
    calls: VecDeque<Call>,
    waiters: Vec<Arc<Waiter>>,
    /// A waiter was woken for the calls and has not come yet: it takes those that follow too.
    expected: bool,
    /// Somebody looks after GRACE whether the calls were taken.
    watched: bool,
    /// How often calls were taken here: tells the watch that somebody came.
    visits: u64,
    /// Wake-ups that came before their waiter.
    wakes: usize,
    pulse: Pulse,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    calls: usize,
    takers: usize,
    /// Of what `take` takes.
    pulse: Pulse,
    routes: HashMap<Route, RouteState>,
    retired: Retired,
    closed: bool,
}

pub struct Inbox {
    max_calls: usize,
    counters: Arc<Counters>,
    state: Mutex<State>,
    arrived: Condvar,
    vigil: Vigil,
}

impl Inbox {
    /// Room for `max_calls` calls; cancellations and retired memory are bounded by the calls they stem from.
    pub fn new(max_calls: usize, counters: Arc<Counters>) -> Arc<Self> {
        let state = Mutex::new(State::default());
        Arc::new(Self { max_calls, counters, state, arrived: Condvar::new(), vigil: Vigil::default() })
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A new call, for the threads of `route`, else for `take`. Given back when the inbox is full or closed.
    pub fn push(self: &Arc<Self>, call: Call, route: Route) -> Result<(), Call> {
        let mut state = self.lock();
        if state.closed || state.calls >= self.max_calls {
            return Err(call);
        }
        state.calls += 1;
        self.counters.waiting_calls.add(1);
        // Calls without a route keep their order, so nobody may wait for them elsewhere.
        let Some(attended) = state.routes.get_mut(&route).filter(|_| route != 0) else {
            state.items.push_back(Item::Call(call));
            self.ring(state);
            return Ok(());
        };
        attended.calls.push_back(call);
        if attended.expected {
            return Ok(());
        }
        // The one that came last: it may be awake yet, and what its model needs is in the caches.
        if let Some(waiter) = attended.waiters.pop() {
            attended.expected = true;
            drop(state);
            waiter.wake();
            return Ok(());
        }
        if attended.watched {
            return Ok(());
        }
        match Handle::try_current() {
            Ok(runtime) => {
                attended.watched = true;
                drop(state);
                runtime.spawn(Arc::clone(self).watch(route));
            }
            Err(_) => self.release(state, route),
        }
        Ok(())
    }

    /// Look again after GRACE: if no thread of the route has come, its calls go to `take`.
    async fn watch(self: Arc<Self>, route: Route) {
        let mut visits = None;
        loop {
            {
                let mut state = self.lock();
                let Some(attended) = state.routes.get_mut(&route) else { return };
                if attended.calls.is_empty() {
                    attended.watched = false;
                    return;
                }
                if visits == Some(attended.visits) {
                    attended.watched = false;
                    return self.release(state, route);
                }
                visits = Some(attended.visits);
            }
            tokio::time::sleep(GRACE).await;
        }
    }

    /// Hand the calls of a route over to `take`.
    fn release(&self, mut state: MutexGuard<'_, State>, route: Route) {
        let calls = state.routes.get_mut(&route).map(|attended| mem::take(&mut attended.calls));
        state.items.extend(calls.into_iter().flatten().map(Item::Call));
        self.ring(state);
    }

    /// News of a call that was taken; they are bounded by those calls.
    pub(crate) fn tell(&self, news: Item) {
        let mut state = self.lock();
        if !state.closed {
            state.items.push_back(news);
            self.ring(state);
        }
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
        let begun = Instant::now();
        let deadline = begun.checked_add(timeout);
        if self.is_alone() && self.lock().pulse.is_brisk() {
            self.vigil.stay_awake(timeout, || self.counters.waiting_calls.get() > 0);
        }
        loop {
            let mut state = self.wait(deadline);
            let count = state.items.len();
            state.pulse.came(count, begun.elapsed());
            let nothing_came = state.items.is_empty() && state.retired.is_empty();
            let (items, retired) = self.collect(state, max_items);
            // Else there were only calls whose client has gone, and they are no end of the waiting.
            if nothing_came || max_items == 0 || !items.is_empty() || !retired.is_empty() {
                return (items, retired);
            }
        }
    }

    /// No call is under way that whoever waits here would take the core from.
    fn is_alone(&self) -> bool {
        self.counters.unsettled_calls.get() == 0
    }

    /// Until there is something, the time is over, or the inbox is closed.
    fn wait(&self, deadline: Option<Instant>) -> MutexGuard<'_, State> {
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
        state
    }

    /// As `take`, but returns at once.
    pub fn try_take(&self, max_items: usize) -> (Vec<Item>, Retired) {
        self.collect(self.lock(), max_items)
    }

    fn collect(&self, mut state: MutexGuard<'_, State>, max_items: usize) -> (Vec<Item>, Retired) {
        let retired = mem::take(&mut state.retired);
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

    /// Up to `max_items` calls of this route, in order. Waits until there are some; empty after the time, `wake_route`
    /// and, once, `close`: what waits later waits for wake-ups, since whoever uses this inbox may have work of its own.
    /// With no time it only looks, and uses up no wake-up. Retired memory is handed over too.
    pub fn take_route(&self, route: Route, max_items: usize, timeout: Duration) -> (Vec<Call>, Retired) {
        let waiter = Arc::new(Waiter::default());
        let is_brisk = {
            let mut state = self.lock();
            let leave = !state.retired.is_empty() || timeout.is_zero();
            let attended = state.routes.entry(route).or_default();
            if leave || !attended.calls.is_empty() {
                return self.collect_route(state, route, max_items);
            }
            if attended.wakes > 0 {
                attended.wakes -= 1;
                return (Vec::new(), Vec::new());
            }
            attended.waiters.push(Arc::clone(&waiter));
            attended.pulse.is_brisk()
        };
        let begun = Instant::now();
        if is_brisk && self.is_alone() {
            self.vigil.stay_awake(timeout, || *waiter.lock());
        }
        waiter.wait(timeout);
        let mut state = self.lock();
        let attended = state.routes.entry(route).or_default();
        attended.pulse.came(attended.calls.len(), begun.elapsed());
        attended.waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
        self.collect_route(state, route, max_items)
    }

    fn collect_route(&self, mut state: MutexGuard<'_, State>, route: Route, max_items: usize) -> (Vec<Call>, Retired) {
        let retired = mem::take(&mut state.retired);
        let attended = state.routes.entry(route).or_default();
        attended.expected = false;
        attended.visits += 1;
        let count = max_items.min(attended.calls.len());
        let taken: Vec<Call> = attended.calls.drain(..count).collect();
        let more = !attended.calls.is_empty();
        state.calls -= count;
        self.counters.waiting_calls.sub(count as u64);
        if more {
            self.release(state, route);
        } else {
            drop(state);
        }
        (taken.into_iter().filter(Call::mark_taken).collect(), retired)
    }

    /// Make `count` waits at the route return, the present ones or the next.
    pub fn wake_route(&self, route: Route, count: usize) {
        let mut state = self.lock();
        let waiting = state.routes.entry(route).or_default();
        let now = count.min(waiting.waiters.len());
        let woken = waiting.waiters.split_off(waiting.waiters.len() - now);
        waiting.wakes += count - now;
        drop(state);
        woken.iter().for_each(|waiter| waiter.wake());
    }

    /// How many threads wait at the route now.
    pub fn waiters(&self, route: Route) -> usize {
        self.lock().routes.get(&route).map_or(0, |waiting| waiting.waiters.len())
    }

    /// Forget routes that are not published any more; what waits there goes to `take`. A route with wake-ups is kept:
    /// somebody may be on the way to wait there, and would never hear.
    pub fn keep_routes(&self, published: impl Fn(Route) -> bool) {
        let mut state = self.lock();
        let gone = |(&route, attended): (&Route, &RouteState)| {
            (!published(route) && attended.waiters.is_empty() && attended.wakes == 0).then_some(route)
        };
        let gone: Vec<Route> = state.routes.iter().filter_map(gone).collect();
        let left: Vec<Call> =
            gone.iter().filter_map(|route| state.routes.remove(route)).flat_map(|a| a.calls).collect();
        state.items.extend(left.into_iter().map(Item::Call));
        self.ring(state);
    }

    /// Wake all takers; `take` never waits again. The calls that are still here are dropped, and so answered.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let items = mem::take(&mut state.items);
        self.counters.waiting_calls.sub(state.calls as u64);
        state.calls = 0;
        let empty = |attended: &mut RouteState| (mem::take(&mut attended.calls), mem::take(&mut attended.waiters));
        let (calls, waiters): (Vec<_>, Vec<_>) = state.routes.values_mut().map(empty).unzip();
        drop(state);
        self.arrived.notify_all();
        waiters.iter().flatten().for_each(|waiter| waiter.wake());
        drop((items, calls));
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
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        *self.lock() = true;
        self.bell.notify_one();
    }

    fn wait(&self, timeout: Duration) {
        let guard = self.lock();
        drop(self.bell.wait_timeout_while(guard, timeout, |woken| !*woken));
    }
}

#[cfg(test)]
mod tests;
