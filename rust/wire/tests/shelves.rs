//! Answers that lie on a shelf are given without a taker; everything else is taken.

mod support;

use std::sync::atomic::Ordering;
use std::sync::Arc;

use charonia_wire::server::Server;
use charonia_wire::shelf::{Kept, Shelf};
use charonia_wire::table::{Entry, Published};
use charonia_wire::wire::Phase;
use support::{echo_call, json_body, next_call, response, start, Client};

const INFER: &str = "POST /v2/models/m/infer";

fn publish(server: &Server, shelf: &Arc<Shelf>, ready: bool) {
    let entry = Entry { ready, shelf: Some(Arc::clone(shelf)), ..Entry::default() };
    server.wire.publish(Published::new(true, true, [("m".to_owned(), String::new(), entry)]));
}

/// A server that knows the answer to `body`: no outputs at all, which no echo gives.
fn with_answer(body: &str) -> (Server, Arc<Shelf>, Kept) {
    let (server, shelf) = (start(|_| {}), Arc::default());
    publish(&server, &shelf, true);
    let mut client = Client::new(&server);
    client.request(INFER, &[], body.as_bytes());
    let call = next_call(&server);
    let kept = shelf.keep(&call.request.parsed, response(Vec::new())).expect("plain");
    echo_call(&call, &mut charonia_wire::courier::Wakes::default());
    assert!(client.answer().text().contains("_OUT"));
    (server, shelf, kept)
}

/// Whether the call is taken; then it is echoed.
fn is_taken(server: &Server, body: &str) -> bool {
    let mut client = Client::new(server);
    let before = server.wire.counters.replies.get();
    client.request(INFER, &[], body.as_bytes());
    while server.wire.counters.replies.get() == before && server.wire.counters.waiting_calls.get() == 0 {
        std::thread::yield_now();
    }
    let taken = server.wire.counters.waiting_calls.get() > 0;
    if taken {
        echo_call(&next_call(server), &mut charonia_wire::courier::Wakes::default());
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().contains("_OUT")), (200, taken), "{}", answer.text());
    taken
}

#[test]
fn the_same_question_needs_no_taker_and_another_one_does() {
    let (server, _shelf, kept) = with_answer(&json_body(&[1.0]));
    assert!(!is_taken(&server, &json_body(&[1.0])));
    assert!(is_taken(&server, &json_body(&[2.0])));
    drop(kept);
    assert!(is_taken(&server, &json_body(&[1.0])));
}

#[test]
fn each_answer_has_the_id_of_its_own_question() {
    let body = json_body(&[1.0]);
    let (server, _shelf, _kept) = with_answer(&body);
    let named = body.replacen('{', "{\"id\":\"mine\",", 1);
    let answer = Client::new(&server).ask(INFER, &[], named.as_bytes());
    assert!(answer.text().contains("\"id\":\"mine\""), "{}", answer.text());
}

#[test]
fn nothing_is_given_while_shelves_are_closed_or_the_model_is_not_ready_or_the_server_leaves() {
    let body = json_body(&[1.0]);
    let (server, shelf, _kept) = with_answer(&body);
    server.wire.shelves_closed.store(true, Ordering::Relaxed);
    assert!(is_taken(&server, &body));
    server.wire.shelves_closed.store(false, Ordering::Relaxed);
    assert!(!is_taken(&server, &body));
    publish(&server, &shelf, false);
    assert!(is_taken(&server, &body));
    publish(&server, &Arc::default(), true);
    assert!(is_taken(&server, &body), "the shelf of another version");
    publish(&server, &shelf, true);
    let mut client = Client::new(&server);
    client.ask(INFER, &[], body.as_bytes());
    server.wire.enter(Phase::Exiting);
    client.request(INFER, &[], body.as_bytes());
    echo_call(&next_call(&server), &mut charonia_wire::courier::Wakes::default());
    assert_eq!(client.answer().status, 200);
}
