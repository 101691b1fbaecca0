//! The bytes of a whole connection, sent to a server that listens. The first character is '1' for the gRPC port.
//!
//! The server ends what the client has ended, nothing in it panics, and it goes on to answer others.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::answer_parts::Head;
use charonia_wire::call::{Call, InputTensor};
use charonia_wire::control::ControlCall;
use charonia_wire::courier::Wakes;
use charonia_wire::inbox::Item;
use charonia_wire::listener::Listener;
use charonia_wire::options::{Listen, Options};
use charonia_wire::reply::{OutputTensor, Reply, Response};
use charonia_wire::server::Server;
use charonia_wire::table::{Entry, Published};

/// Nothing waits this long that works.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer that needs nothing more is there by now, mostly.
const ANSWER_TIME: Duration = Duration::from_millis(2);

const A_DAY: Duration = Duration::from_secs(86_400);

static SERVER: LazyLock<Server> = LazyLock::new(start);

pub fn run(input: &[u8]) {
    let Some((door, bytes)) = input.split_first() else { return };
    let listener = if door & 1 == 1 { Listener::Grpc } else { Listener::Http };
    talk(SERVER.port(listener), bytes);
    assert_eq!(SERVER.wire.counters.panics.get(), 0);
    assert_eq!(SERVER.wire.counters.dropped_calls.get(), 0);
    assert!(is_live(), "it answers nobody any more");
}

fn is_live() -> bool {
    let mut stream = connect(SERVER.port(Listener::Http));
    let mut answer = Vec::new();
    stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it reads");
    has_ended(&mut stream, PATIENCE, &mut answer) && answer.starts_with(b"HTTP/1.1 200 ")
}

fn connect(port: Option<u16>) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port.expect("it listens"))).expect("a connection")
}

/// Send all of it and read what is answered, then end the connection and read to its end.
fn talk(port: Option<u16>, bytes: &[u8]) {
    let mut stream = connect(port);
    let mut answer = Vec::new();
    // The server may have refused and closed before all is sent.
    if stream.write_all(bytes).is_ok() && !has_ended(&mut stream, ANSWER_TIME, &mut answer) {
        // Who ends its connection is not interested in an answer any more.
        let _ = stream.shutdown(Shutdown::Write);
        assert!(has_ended(&mut stream, PATIENCE, &mut answer), "the server keeps what the client has ended");
    }
}

/// Read to the end; false when nothing came for so long.
fn has_ended(stream: &mut TcpStream, patience: Duration, answer: &mut Vec<u8>) -> bool {
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    match stream.read_to_end(answer) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn start() -> Server {
    let listen = || Listen { address: "127.0.0.1".to_owned(), port: Some(0), reuse_port: false };
    let server = Server::new(Options { http: listen(), grpc: listen(), ..Options::default() });
    server.start().expect("free ports");
    let ready = |version: &str| ("m".to_owned(), version.to_owned(), Entry { ready: true, ..Entry::default() });
    server.wire.publish(Published::new(true, true, [ready(""), ready("1")]));
    let (inbox, control) = (server.wire.inbox.clone(), server.wire.control.clone());
    std::thread::spawn(move || loop {
        inbox.take(64, A_DAY).0.into_iter().for_each(echo);
    });
    std::thread::spawn(move || loop {
        control.take(64, A_DAY).0.into_iter().for_each(not_found);
    });
    server
}

fn echo(item: Item) {
    let Item::Call(call) = item else { return };
    let mut wakes = Wakes::default();
    reply(&call, &mut wakes);
}

fn reply(call: &Call, wakes: &mut Wakes) {
    let parsed = &call.request.parsed;
    if let Some(defect) = &parsed.defect {
        call.reply(Reply::Err(defect.clone()), wakes);
        return;
    }
    let output = |input: &InputTensor| OutputTensor {
        name: input.name.clone(),
        datatype: input.datatype,
        shape: input.shape.clone(),
        data: input.data.clone(),
        is_elsewhere: false,
    };
    let outputs = if parsed.raw { Vec::new() } else { parsed.inputs.iter().map(output).collect() };
    call.reply(Reply::Ok(Response { outputs, is_final: true, ..Response::default() }), wakes);
}

fn not_found(call: ControlCall) {
    match call {
        ControlCall::Http(call) => {
            call.answer.start(Head { status: 404, headers: Vec::new() }).unwrap();
            call.answer.write(Bytes::new(), false).unwrap();
        }
        ControlCall::Rpc(call) => call.answer(Ok(Bytes::new())),
    }
}
