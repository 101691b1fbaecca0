//! The inbox's promises, one by one.

use std::future::Future;
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
    let arrival =
        Arrival { protocol: Protocol::Http, begun_ns: 0, arrival_ns: 1, deadline_ns: 0, headers, permit: None };
    Call::new(ParsedCall::default(), arrival, Box::new(Nowhere), inbox)
}

fn keys(items: &[Item]) -> Vec<u64> {
    let key = |item: &Item| match item {
        Item::Call(call) => call.request.key,
        Item::Cancelled(key) | Item::Room(key) | Item::Sent(key) => *key,
    };
    items.iter().map(key).collect()
}

/// A waiter that is known to wait.
fn wait_at(inbox: &Arc<Inbox>, route: Route, timeout: Duration) -> mpsc::Receiver<Option<u64>> {
    let (sender, receiver) = mpsc::channel();
    let (waiting, before) = (Arc::clone(inbox), inbox.waiters(route));
    std::thread::spawn(move || {
        let (calls, _) = waiting.take_route(route, 8, timeout);
        sender.send(calls.first().map(|call| call.request.key)).unwrap();
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
fn a_waiting_thread_gets_the_next_call_and_once_it_is_gone_take_gets_the_one_after() {
    let inbox = inbox(8);
    let waiter = wait_at(&inbox, 5, LONG);
    let (first, second) = (call(&inbox), call(&inbox));
    let expected = (first.request.key, second.request.key);
    assert!(inbox.push(first, 5).is_ok());
    assert_eq!(waiter.recv_timeout(LONG).unwrap(), Some(expected.0));
    assert!(inbox.push(second, 5).is_ok());
    assert_eq!(keys(&inbox.take(8, LONG).0), [expected.1]);
}

fn on_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
}

#[test]
fn calls_of_a_busy_thread_gather_until_it_comes_back() {
    on_runtime(async {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
        let calls = [call(&inbox), call(&inbox)];
        let expected: Vec<u64> = calls.iter().map(|call| call.request.key).collect();
        calls.into_iter().for_each(|call| assert!(inbox.push(call, 5).is_ok()));
        assert!(inbox.try_take(8).0.is_empty(), "they wait for their own thread first");
        let (taken, _) = inbox.take_route(5, 8, LONG);
        assert_eq!(taken.iter().map(|call| call.request.key).collect::<Vec<_>>(), expected);
    });
}

#[test]
fn a_thread_that_came_back_is_woken_though_somebody_still_watches() {
    on_runtime(async {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
        assert!(inbox.push(call(&inbox), 5).is_ok());
        assert_eq!(inbox.take_route(5, 8, LONG).0.len(), 1);
        let waiter = wait_at(&inbox, 5, LONG);
        assert!(inbox.push(call(&inbox), 5).is_ok());
        // The watch can't run here: this test never yields to the runtime.
        assert!(waiter.recv_timeout(LONG).unwrap().is_some());
    });
}

#[test]
fn calls_that_a_busy_thread_does_not_fetch_in_time_go_to_take() {
    on_runtime(async {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
        for _ in 0..3 {
            let waiting = call(&inbox);
            let key = waiting.request.key;
            assert!(inbox.push(waiting, 5).is_ok());
            tokio::time::sleep(3 * GRACE).await;
            assert_eq!(keys(&inbox.try_take(8).0), [key]);
        }
    });
}

#[test]
fn what_exceeds_a_portion_is_not_left_at_the_route() {
    on_runtime(async {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
        for _ in 0..3 {
            assert!(inbox.push(call(&inbox), 5).is_ok());
        }
        assert_eq!(inbox.take_route(5, 2, LONG).0.len(), 2);
        assert_eq!(inbox.try_take(8).0.len(), 1);
    });
}

#[test]
fn calls_of_a_route_that_is_withdrawn_go_to_take() {
    on_runtime(async {
        let inbox = inbox(8);
        assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
        assert!(inbox.push(call(&inbox), 5).is_ok());
        inbox.keep_routes(|_| false);
        assert_eq!(inbox.try_take(8).0.len(), 1);
    });
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
    assert!(inbox.take_route(5, 8, LONG).0.is_empty());
    assert!(inbox.take_route(5, 8, Duration::ZERO).0.is_empty());
    let waiters = [wait_at(&inbox, 5, LONG), wait_at(&inbox, 5, LONG)];
    inbox.wake_route(5, 3);
    waiters.iter().for_each(|waiter| assert_eq!(waiter.recv_timeout(LONG).unwrap(), None));
    assert!(inbox.take_route(5, 8, LONG).0.is_empty(), "the third wake");
}

#[test]
fn a_call_that_comes_after_the_time_goes_to_take() {
    let inbox = inbox(8);
    assert!(inbox.take_route(5, 8, Duration::from_millis(1)).0.is_empty());
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
    assert!(inbox.push(call(&inbox), 0).is_err());
    assert!(inbox.push(call(&inbox), 5).is_err());
}

#[test]
fn wakes_outlive_the_end_of_the_inbox_and_of_their_route() {
    let inbox = inbox(8);
    inbox.close();
    let waiter = wait_at(&inbox, 5, LONG);
    assert!(waiter.try_recv().is_err(), "nobody woke it yet");
    inbox.wake_route(5, 2);
    assert_eq!(waiter.recv_timeout(LONG).unwrap(), None);
    inbox.keep_routes(|_| false);
    assert!(inbox.take_route(5, 8, LONG).0.is_empty(), "the second wake");
    inbox.keep_routes(|_| false);
    assert!(inbox.lock().routes.is_empty());
}

#[test]
fn calls_without_a_route_are_never_kept_for_a_waiter() {
    let inbox = inbox(8);
    let waiter = wait_at(&inbox, 0, LONG);
    let calls = [call(&inbox), call(&inbox)];
    let expected: Vec<u64> = calls.iter().map(|call| call.request.key).collect();
    calls.into_iter().for_each(|call| assert!(inbox.push(call, 0).is_ok()));
    assert_eq!(keys(&inbox.take(8, LONG).0), expected);
    inbox.wake_route(0, 1);
    assert_eq!(waiter.recv_timeout(LONG).unwrap(), None);
}

#[test]
fn a_call_whose_client_has_gone_does_not_end_a_wait() {
    let inbox = inbox(8);
    let (gone, comes) = (call(&inbox), call(&inbox));
    drop(gone.guard());
    let expected = comes.request.key;
    let taking = Arc::clone(&inbox);
    let taker = std::thread::spawn(move || keys(&taking.take(8, LONG).0));
    assert!(inbox.push(gone, 0).is_ok());
    while inbox.counters().waiting_calls.get() > 0 {
        std::thread::yield_now();
    }
    assert!(inbox.push(comes, 0).is_ok());
    assert_eq!(taker.join().unwrap(), [expected]);
}

#[test]
fn of_several_waiting_threads_the_last_one_is_woken() {
    let inbox = inbox(8);
    let first = wait_at(&inbox, 5, LONG);
    let last = wait_at(&inbox, 5, LONG);
    let (one, other) = (call(&inbox), call(&inbox));
    let keys = (one.request.key, other.request.key);
    assert!(inbox.push(one, 5).is_ok());
    assert_eq!(last.recv_timeout(LONG).unwrap(), Some(keys.0));
    assert!(inbox.push(other, 5).is_ok());
    assert_eq!(first.recv_timeout(LONG).unwrap(), Some(keys.1));
}
