//! Each call is settled once, whoever goes first: the client, the engine or the server.

mod support;

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::answer_parts::Head;
use charonia_wire::control::{ControlCall, HttpCall};
use charonia_wire::courier::Wakes;
use charonia_wire::datatype::DataType;
use charonia_wire::lend::lend;
use charonia_wire::listener::Listener;
use charonia_wire::reply::{OutputTensor, Reply};
use charonia_wire::server::Server;
use charonia_wire::status::Code;
use charonia_wire::wire::Phase;
use support::{echo, echo_call, json_body, next_call, next_cancelled, response, start, Client, PATIENCE};

const INFER: &str = "POST /v2/models/m/infer";

fn submit(client: &mut Client) {
    client.request(INFER, &[], json_body(&[1.0]).as_bytes());
}

#[test]
fn a_closed_connection_cancels_the_call_that_was_taken() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    let call = next_call(&server);
    assert!(!call.is_cancelled());
    drop(client);
    assert_eq!(next_cancelled(&server), call.request.key);
    assert!(call.is_cancelled());
    drop(call);
    assert_eq!(server.wire.counters.dropped_calls.get(), 0, "nobody missed an answer");
}

#[test]
fn a_call_whose_client_went_while_it_waited_is_not_taken() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    while server.wire.counters.waiting_calls.get() == 0 {
        std::thread::yield_now();
    }
    drop(client);
    while server.wire.counters.cancelled_calls.get() == 0 {
        std::thread::yield_now();
    }
    assert!(server.wire.inbox.try_take(8).0.is_empty());
    assert_eq!(server.wire.counters.unsettled_calls.get(), 0);
}

#[test]
fn a_dropped_call_answers_and_counts() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    drop(next_call(&server));
    let answer = client.answer();
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("model 'm'"), "{}", answer.text());
    assert_eq!(server.wire.counters.dropped_calls.get(), 1);
}

#[test]
fn a_second_reply_is_counted_and_ignored() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    let call = next_call(&server);
    let mut wakes = Wakes::default();
    assert!(call.fail(Code::UNAVAILABLE, "first", &mut wakes));
    assert!(!call.reply(Reply::Ok(response(Vec::new())), &mut wakes));
    drop(wakes);
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (503, "{\"error\":\"first\"}"));
    assert_eq!(server.wire.counters.late_replies.get(), 1);
}

#[test]
fn an_answer_does_not_wait_for_the_next_request_on_its_connection() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    submit(&mut client);
    echo_call(&next_call(&server), &mut Wakes::default());
    assert_eq!(client.answer().status, 200);
    let second = next_call(&server);
    assert!(!second.is_cancelled());
    echo_call(&second, &mut Wakes::default());
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_full_inbox_refuses() {
    let server = start(|options| options.inbox_max_calls = 1);
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    submit(&mut first);
    while server.wire.counters.waiting_calls.get() == 0 {
        std::thread::yield_now();
    }
    submit(&mut second);
    assert_eq!(second.answer().status, 503);
    echo_call(&next_call(&server), &mut Wakes::default());
    assert_eq!(first.answer().status, 200);
}

#[test]
fn bodies_over_the_budget_wait_and_are_then_refused() {
    let server = start(|options| {
        options.body_budget_bytes = 1000;
        options.body_wait_ms = 50;
    });
    let (mut first, mut second) = (Client::new(&server), Client::new(&server));
    first.request(INFER, &[], &[b' '; 900]);
    let held = next_call(&server);
    second.request(INFER, &[], &[b' '; 900]);
    assert_eq!(second.answer().status, 503);
    drop(held);
    first.answer();
    let mut third = Client::new(&server);
    third.request(INFER, &[], &[b' '; 900]);
    drop(next_call(&server));
    assert_eq!(third.answer().status, 500, "there is room again");
    drop(server);
}

#[test]
fn lent_memory_comes_back_when_it_is_sent_and_when_nobody_reads_it() {
    let server = start(|options| options.write_timeout_ms = 200);
    for reads in [true, false] {
        let mut client = Client::new(&server);
        let header = "Inference-Header-Content-Length: 0";
        client.request(INFER, &[header], b"x");
        let call = next_call(&server);
        let (sender, dropped) = mpsc::channel();
        let memory = vec![1_u8; 64 << 20];
        // SAFETY: the owner is the memory itself, boxed; nobody writes to it.
        let data = unsafe { lend(memory.as_ptr(), memory.len(), Box::new((memory, Tell(sender))), &server.wire.inbox) };
        assert_eq!(server.wire.counters.pinned_output_bytes.get(), 64 << 20);
        let (name, shape) = ("Y".to_owned(), vec![64 << 20]);
        let output = OutputTensor { name, datatype: DataType::Uint8, shape, data, is_elsewhere: false };
        call.reply(Reply::Ok(response(vec![output])), &mut Wakes::default());
        drop(call);
        if reads {
            assert_eq!(client.answer().status, 200);
        }
        assert!(dropped.try_recv().is_err(), "only a taker drops it");
        let (items, retired) = server.wire.inbox.take(8, PATIENCE);
        assert_eq!((items.len(), retired.len()), (0, 1));
        drop(retired);
        dropped.recv_timeout(PATIENCE).unwrap();
        assert_eq!(server.wire.counters.pinned_output_bytes.get(), 0);
    }
}

/// Tells when it is dropped.
struct Tell(mpsc::Sender<()>);

impl Drop for Tell {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_waiter_at_the_route_gets_the_call() {
    let server = start(|_| {});
    let inbox = server.wire.inbox.clone();
    let waiter = std::thread::spawn(move || {
        let (calls, _) = inbox.take_route(7, 8, PATIENCE);
        echo_call(calls.first().expect("a call for route 7"), &mut Wakes::default());
    });
    while server.wire.inbox.waiters(7) == 0 {
        std::thread::yield_now();
    }
    let mut client = Client::new(&server);
    submit(&mut client);
    assert_eq!(client.answer().status, 200);
    waiter.join().unwrap();
}

fn next_control(server: &Server) -> HttpCall {
    loop {
        let (calls, news) = server.wire.control.take(1, PATIENCE);
        match calls.into_iter().next() {
            Some(ControlCall::Http(call)) => return call,
            Some(ControlCall::Rpc(_)) => panic!("a call over gRPC came"),
            None => assert!(!news.is_empty(), "no control call came"),
        }
    }
}

fn next_news(server: &Server) -> Vec<u64> {
    server.wire.control.take(1, PATIENCE).1
}

#[test]
fn control_calls_pass_through_whole() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request("PUT /v2/some%20where?a=b%20c", &["X-Y: z"], b"body");
    let call = next_control(&server);
    assert_eq!((call.method.as_str(), call.path.as_str(), call.query.as_str()), ("PUT", "/v2/some%20where", "a=b%20c"));
    assert_eq!((&call.headers["x-y"], &call.body[..]), (&"z".parse().unwrap(), b"body".as_slice()));
    call.answer.start(Head { status: 201, headers: vec![(Bytes::from("X-A"), Bytes::from("1"))] }).unwrap();
    call.answer.write(Bytes::from("one "), true).unwrap();
    call.answer.write(Bytes::from("two"), false).unwrap();
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("x-a"), answer.text().as_str()), (201, Some("1"), "one two"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
}

#[test]
fn a_control_call_dropped_early_is_an_error_and_dropped_late_breaks_the_connection() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request("GET /v2", &[], b"");
    drop(next_control(&server));
    assert_eq!(client.answer().status, 500);
    client.request("GET /v2", &[], b"");
    let call = next_control(&server);
    call.answer.start(Head { status: 200, headers: Vec::new() }).unwrap();
    drop(call);
    assert!(!client.rest().ends_with(b"0\r\n\r\n"), "a body that was cut short does not look whole");
}

#[test]
fn a_control_call_knows_that_its_client_has_gone() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request("GET /v2", &[], b"");
    let call = next_control(&server);
    assert!(!call.answer.is_closed());
    drop(client);
    assert_eq!(next_news(&server), [call.key]);
    assert!(call.answer.is_closed());
    assert!(!call.answer.start(Head { status: 200, headers: Vec::new() }).unwrap());
}

#[test]
fn the_maker_of_a_body_hears_of_a_client_that_left_in_the_middle_and_of_none_that_read_it_all() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    for leaves in [false, true] {
        client.request("GET /v2", &[], b"");
        let call = next_control(&server);
        call.answer.start(Head { status: 200, headers: Vec::new() }).unwrap();
        call.answer.write(Bytes::from("x"), true).unwrap();
        if leaves {
            drop(client);
            assert_eq!(next_news(&server), [call.key]);
            assert!(!call.answer.write(Bytes::from("x"), true).unwrap());
            return;
        }
        call.answer.write(Bytes::new(), false).unwrap();
        assert_eq!(client.answer().text(), "x");
        server.wire.control.wake();
        assert_eq!(next_news(&server), [0; 0]);
    }
}

#[test]
fn each_piece_of_a_body_goes_out_at_once() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request("GET /v2", &["Accept-Encoding: gzip"], b"");
    let call = next_control(&server);
    call.answer.start(Head { status: 200, headers: Vec::new() }).unwrap();
    assert_eq!(client.head().header("transfer-encoding"), Some("chunked"));
    for piece in ["data: 1\n\n", "data: 2\n\n"] {
        call.answer.write(Bytes::from(piece), true).unwrap();
        assert_eq!(client.chunk(), piece.as_bytes());
    }
}

#[test]
fn a_body_is_made_no_faster_than_it_is_read() {
    const PIECE_BYTES: usize = 64 << 10;
    let server = start(|_| {});
    let (mut slow, mut quick) = (Client::new(&server), Client::new(&server));
    slow.request("GET /v2", &[], b"");
    let behind = next_control(&server);
    quick.request("GET /v2", &[], b"");
    let fine = next_control(&server);
    for call in [&behind, &fine] {
        call.answer.start(Head { status: 200, headers: Vec::new() }).unwrap();
    }
    let mut sent = 0;
    while behind.answer.has_room() {
        assert!(behind.answer.write(Bytes::from(vec![b'x'; PIECE_BYTES]), true).unwrap());
        sent += 1;
        std::thread::sleep(Duration::from_micros(100));
    }
    assert!(sent * PIECE_BYTES < 64 << 20, "a client that reads nothing costs bounded memory");
    assert!(fine.answer.has_room());
    fine.answer.write(Bytes::from("fine"), false).unwrap();
    assert_eq!(quick.answer().text(), "fine");
    std::thread::scope(|scope| {
        let read = scope.spawn(|| slow.answer().body.len());
        assert_eq!(next_news(&server), [behind.key]);
        assert!(behind.answer.has_room());
        behind.answer.write(Bytes::new(), false).unwrap();
        assert_eq!(read.join().unwrap(), sent * PIECE_BYTES);
    });
}

#[test]
fn an_exiting_server_closes_what_it_answers_and_accepts_nobody() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    assert_eq!(client.infer(&json_body(&[1.0])).header("connection"), None);
    server.wire.enter(Phase::Exiting);
    let answer = client.infer(&json_body(&[1.0]));
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(client.is_closed());
    let address = ("127.0.0.1", server.port(Listener::Http).unwrap());
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
    assert!(server.shutdown(PATIENCE));
}

#[test]
fn shutdown_waits_for_what_is_in_flight_but_not_for_ever() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    let call = next_call(&server);
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| server.shutdown(PATIENCE));
        while *server.wire.phase.borrow() < Phase::Draining {
            std::thread::yield_now();
        }
        echo_call(&call, &mut Wakes::default());
        assert_eq!(client.answer().status, 200);
        assert!(ended.join().unwrap());
    });

    let server = start(|_| {});
    let mut client = Client::new(&server);
    submit(&mut client);
    let _call = next_call(&server);
    assert!(!server.shutdown(Duration::from_millis(50)));
    assert!(client.is_closed());
    assert!(server
        .wire
        .inbox
        .take(1, PATIENCE)
        .0
        .iter()
        .all(|item| matches!(item, charonia_wire::inbox::Item::Cancelled(_))));
}

#[test]
fn shutdown_does_not_wait_for_requests_that_never_come_as_a_whole() {
    for begun in
        ["", "POST /v2/models/m/inf", "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
    {
        let server = start(|options| options.grpc = support::local());
        let mut silent = Vec::new();
        for listener in [Listener::Http, Listener::Grpc] {
            let port = server.port(listener).unwrap();
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(begun.as_bytes()).unwrap();
            silent.push(stream);
        }
        let mut client = Client::new(&server);
        submit(&mut client);
        let call = next_call(&server);
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| server.shutdown(PATIENCE));
            while *server.wire.phase.borrow() < Phase::Draining {
                std::thread::yield_now();
            }
            echo_call(&call, &mut Wakes::default());
            assert_eq!(client.answer().status, 200, "what came as a whole is still answered");
            assert!(ended.join().unwrap(), "{begun:?}");
        });
    }
}

#[test]
fn two_servers_share_no_port_and_say_which() {
    let server = start(|_| {});
    let port = server.port(Listener::Http).unwrap();
    let mut listen = support::local();
    listen.port = Some(port);
    let options = charonia_wire::options::Options { http: listen, ..Default::default() };
    let error = Server::new(options).start().unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}
