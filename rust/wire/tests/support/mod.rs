//! A server with a fake engine behind it, and a client that says exactly what it is told.

#![allow(dead_code)] // Each test file uses its part.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::call::Call;
use charonia_wire::courier::Wakes;
use charonia_wire::inbox::Item;
use charonia_wire::listener::Listener;
use charonia_wire::options::{Listen, Options};
use charonia_wire::reply::{OutputTensor, Reply, Response};
use charonia_wire::server::Server;
use charonia_wire::table::{Entry, Published};

/// Long enough for a loaded machine; nothing waits this long when it works.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn local() -> Listen {
    Listen { address: "127.0.0.1".to_owned(), port: Some(0), reuse_port: false }
}

/// A running server that listens for HTTP, with model `m` ready and model `cold` not.
pub fn start(change: impl FnOnce(&mut Options)) -> Server {
    let mut options = Options { http: local(), ..Options::default() };
    change(&mut options);
    let server = Server::new(options);
    server.start().unwrap();
    let entry = |name: &str, version: &str, ready, route| {
        (name.to_owned(), version.to_owned(), Entry { ready, route, ..Entry::default() })
    };
    let entries = [entry("m", "", true, 7), entry("m", "1", true, 0), entry("cold", "", false, 0)];
    server.wire.publish(Published::new(true, false, entries));
    server
}

/// The next call that arrives.
pub fn next_call(server: &Server) -> Call {
    match server.wire.inbox.take(1, PATIENCE).0.pop() {
        Some(Item::Call(call)) => call,
        Some(Item::Cancelled(key) | Item::Room(key) | Item::Sent(key)) => panic!("expected a call, got news of {key}"),
        None => panic!("no call came"),
    }
}

pub fn next_cancelled(server: &Server) -> u64 {
    match server.wire.inbox.take(1, PATIENCE).0.pop() {
        Some(Item::Cancelled(key)) => key,
        Some(Item::Call(_)) => panic!("expected a cancellation, got a call"),
        Some(Item::Room(key) | Item::Sent(key)) => panic!("expected a cancellation, got room for {key}"),
        None => panic!("no cancellation came"),
    }
}

/// Answers each call with its inputs, until the server ends.
pub fn echo(server: &Server) -> JoinHandle<()> {
    let inbox = server.wire.inbox.clone();
    std::thread::spawn(move || loop {
        let (items, _) = inbox.take(64, PATIENCE);
        if items.is_empty() {
            return;
        }
        let mut wakes = Wakes::default();
        for item in items {
            if let Item::Call(call) = item {
                echo_call(&call, &mut wakes);
            }
        }
    })
}

pub fn echo_call(call: &Call, wakes: &mut Wakes) {
    let parsed = &call.request.parsed;
    if let Some(defect) = &parsed.defect {
        call.fail(defect.code, defect.message.clone(), wakes);
        return;
    }
    let output = |input: &charonia_wire::call::InputTensor| OutputTensor {
        name: format!("{}_OUT", input.name),
        datatype: input.datatype,
        shape: input.shape.clone(),
        data: input.data.clone(),
        is_elsewhere: false,
    };
    let outputs = parsed.inputs.iter().map(output).collect();
    call.reply(Reply::Ok(response(outputs)), wakes);
}

pub fn response(outputs: Vec<OutputTensor>) -> Response {
    let (model_name, model_version) = ("m".to_owned(), "1".to_owned());
    Response { model_name, model_version, outputs, is_final: true, ..Response::default() }
}

pub struct Client {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub fn new(server: &Server) -> Self {
        Self::at(server.port(Listener::Http).unwrap())
    }

    pub fn at(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// A request with a body of known length; `headers` are whole lines.
    pub fn request(&mut self, line: &str, headers: &[&str], body: &[u8]) {
        let (line, length) = (format!("{line} HTTP/1.1"), format!("Content-Length: {}", body.len()));
        let lines = [&[line.as_str(), "Host: h", &length], headers].concat();
        let head = lines.join("\r\n") + "\r\n\r\n";
        self.send(&[head.as_bytes(), body].concat());
    }

    pub fn ask(&mut self, line: &str, headers: &[&str], body: &[u8]) -> Answer {
        self.request(line, headers, body);
        self.answer()
    }

    pub fn infer(&mut self, body: &str) -> Answer {
        self.ask("POST /v2/models/m/infer", &[], body.as_bytes())
    }

    /// The next answer; its body by length or in chunks.
    pub fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        let length = answer.header("content-length").map(|text| text.parse::<usize>().unwrap());
        answer.body = match length {
            Some(length) => self.exactly(length).into(),
            None if answer.header("transfer-encoding") == Some("chunked") => self.chunks(),
            None => Bytes::new(),
        };
        answer
    }

    /// An answer without its body, as to HEAD.
    pub fn head(&mut self) -> Answer {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {status_line:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Answer { status, headers, body: Bytes::new() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn chunks(&mut self) -> Bytes {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk();
            if chunk.is_empty() {
                return body.into();
            }
            body.extend(chunk);
        }
    }

    /// The next chunk of a body, empty at its end.
    pub fn chunk(&mut self) -> Vec<u8> {
        let size = usize::from_str_radix(&self.line(), 16).unwrap();
        let chunk = self.exactly(size);
        self.line();
        chunk
    }

    /// What comes until the server ends the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    /// True when the server has ended the connection and nothing more is to read.
    pub fn is_closed(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0; 1]), Ok(1))
    }
}

/// The JSON of one FP32 input.
pub fn json_body(values: &[f32]) -> String {
    format!(r#"{{"inputs":[{{"name":"X","datatype":"FP32","shape":[{}],"data":{values:?}}}]}}"#, values.len())
}
