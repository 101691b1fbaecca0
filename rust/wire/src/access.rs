//! The access log: one record for each HTTP request and each gRPC call, kept until a writer takes it.
//!
//! A record is made when the last byte of the answer has been handed over, or the client has gone. Nobody who serves
//! waits for the writer: when too many records wait, further ones are counted and dropped.

mod render;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body::{Body, Frame, SizeHint};
use percent_encoding::percent_decode_str;

use crate::call::ParsedCall;
use crate::listener::Listener;
use crate::status::Code;

/// Records that wait for the writer: at 50,000 requests a second it may stand still for more than a second.
const MAX_WAITING: usize = 65_536;

/// So many records are worth waking the writer at once; fewer wait for more, but not for long.
const ENOUGH: usize = 512;
const LINGER: Duration = Duration::from_millis(100);

/// HTTP's status of a request whose client left before there was an answer; nginx has it so.
const CLIENT_LEFT: i32 = 499;

/// Characters of a method, a path, a model's name or an id; what is longer is cut. A client may send names of megabytes,
/// and records wait.
const MAX_SHOWN: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// The common log format, and what that lacks behind it.
    Common,
}

impl Format {
    /// By its name; "" records nothing.
    pub fn of_setting(name: &str) -> Result<Option<Self>, String> {
        match name {
            "" => Ok(None),
            "json" => Ok(Some(Self::Json)),
            "common" => Ok(Some(Self::Common)),
            _ => Err(format!("'{name}' is no format of an access log")),
        }
    }
}

pub struct Record {
    begun: SystemTime,
    took: Duration,
    client: Option<SocketAddr>,
    listener: Listener,
    method: String,
    /// Without the query, which may hold anything.
    path: String,
    version: Version,
    /// HTTP's, or gRPC's code.
    status: i32,
    bytes_in: u64,
    bytes_out: u64,
    /// "" where it is not known; so is the id.
    model: String,
    request_id: String,
}

pub struct AccessLog {
    format: Format,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    records: Vec<Record>,
    dropped: u64,
    closed: bool,
}

impl AccessLog {
    pub fn new(format: Format) -> Arc<Self> {
        Arc::new(Self { format, state: Mutex::default(), arrived: Condvar::new() })
    }

    fn push(&self, record: Record) {
        let mut state = self.lock();
        if state.records.len() >= MAX_WAITING {
            state.dropped += 1;
            return;
        }
        state.records.push(record);
        let count = state.records.len();
        drop(state);
        if count == 1 || count == ENOUGH {
            self.arrived.notify_one();
        }
    }

    /// The lines of what has come, and how many were dropped since the last call. Waits until there is something, the
    /// time is over, or the log is closed; nothing then.
    pub fn take(&self, timeout: Duration) -> (Vec<u8>, u64) {
        let wait = |state, time, enough: usize| {
            let few = |state: &mut State| state.records.len() < enough && !state.closed;
            self.arrived.wait_timeout_while(state, time, few).unwrap_or_else(PoisonError::into_inner).0
        };
        let mut state = wait(self.lock(), timeout, 1);
        if !state.records.is_empty() {
            state = wait(state, LINGER, ENOUGH);
        }
        let records = std::mem::take(&mut state.records);
        let dropped = std::mem::take(&mut state.dropped);
        drop(state);
        let mut lines = Vec::with_capacity(records.len() * 256);
        records.iter().for_each(|record| render::line(self.format, record, &mut lines));
        (lines, dropped)
    }

    /// No record comes any more; `take` does not wait any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is learned of a request while it is served.
#[derive(Default)]
pub struct Seen {
    bytes_in: AtomicU64,
    names: OnceLock<(String, String)>,
}

impl Seen {
    /// Of a stream, the first request counts.
    pub fn names(&self, parsed: &ParsedCall) {
        self.names.get_or_init(|| (cut(&parsed.model_name), cut(&parsed.id)));
    }
}

/// A record in the making; it goes to the log when this is dropped.
pub struct Entry {
    log: Arc<AccessLog>,
    begun: Instant,
    seen: Arc<Seen>,
    record: Option<Record>,
}

impl Entry {
    /// The head of the answer is there.
    pub fn answers(&mut self, status: http::StatusCode, headers: &HeaderMap) {
        match self.record.as_mut() {
            Some(record) if record.listener == Listener::Grpc => self.ends(headers),
            Some(record) => record.status = i32::from(status.as_u16()),
            None => {}
        }
    }

    /// A frame of the answer goes out.
    pub fn sends(&mut self, frame: &Frame<Bytes>) {
        if let (Some(data), Some(record)) = (frame.data_ref(), self.record.as_mut()) {
            record.bytes_out += data.len() as u64;
        }
        if let Some(trailers) = frame.trailers_ref() {
            self.ends(trailers);
        }
    }

    fn ends(&mut self, headers: &HeaderMap) {
        let code = headers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
        if let (Some(code), Some(record)) = (code, self.record.as_mut()) {
            record.status = code;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        record.took = self.begun.elapsed();
        record.bytes_in = self.seen.bytes_in.load(Ordering::Relaxed);
        if let Some((model, id)) = self.seen.names.get() {
            (record.model, record.request_id) = (model.clone(), id.clone());
        }
        self.log.push(record);
    }
}

/// The body of a request; what comes is counted where somebody wants to know.
pub struct Incoming {
    body: hyper::body::Incoming,
    seen: Option<Arc<Seen>>,
}

impl Incoming {
    pub fn new(body: hyper::body::Incoming, entry: Option<&Entry>) -> Self {
        Self { body, seen: entry.map(|entry| Arc::clone(&entry.seen)) }
    }

    pub fn seen(&self) -> Option<Arc<Seen>> {
        self.seen.clone()
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let (Some(seen), Some(Ok(frame))) = (&self.seen, &frame) {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            seen.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The entry of a request that has begun. Boxed: most servers have no log, and carry a pointer with each request.
pub fn begin<B>(
    log: &Arc<AccessLog>,
    listener: Listener,
    client: Option<SocketAddr>,
    request: &Request<B>,
) -> Box<Entry> {
    let path = request.uri().path();
    let record = Record {
        begun: SystemTime::now(),
        took: Duration::ZERO,
        client,
        listener,
        method: cut(request.method().as_str()),
        path: cut(path),
        version: request.version(),
        status: if listener == Listener::Grpc { Code::CANCELLED.0 } else { CLIENT_LEFT },
        bytes_in: 0,
        bytes_out: 0,
        model: cut(&model_of(path)),
        request_id: String::new(),
    };
    Box::new(Entry { log: Arc::clone(log), begun: Instant::now(), seen: Arc::default(), record: Some(record) })
}

/// The model that a path of the protocol names, "" for none.
fn model_of(path: &str) -> Cow<'_, str> {
    let name = path.strip_prefix("/v2/models/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    match path {
        "/v2/models/stats" => Cow::Borrowed(""),
        _ => percent_decode_str(name).decode_utf8_lossy(),
    }
}

fn cut(text: &str) -> String {
    let is_short = text.len() <= MAX_SHOWN;
    let end = if is_short { None } else { text.char_indices().nth(MAX_SHOWN).map(|(end, _)| end) };
    text[..end.unwrap_or(text.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(log: &Arc<AccessLog>, path: &str) -> Box<Entry> {
        let request = Request::builder().method("POST").uri(path).body(()).unwrap();
        begin(log, Listener::Http, None, &request)
    }

    #[test]
    fn a_record_is_there_once_its_entry_is_dropped() {
        let log = AccessLog::new(Format::Json);
        let mut entry = entry_of(&log, "/v2/models/m/infer?secret=1");
        entry.answers(http::StatusCode::OK, &HeaderMap::new());
        entry.sends(&Frame::data(Bytes::from_static(b"12345")));
        entry.seen.names(&ParsedCall { model_name: "m".into(), id: "a\"\n".into(), ..ParsedCall::default() });
        assert_eq!(log.take(Duration::ZERO), (Vec::new(), 0));
        drop(entry);
        log.close();
        let (lines, dropped) = log.take(Duration::ZERO);
        let line: serde_json::Value = serde_json::from_slice(&lines).unwrap();
        assert_eq!(dropped, 0);
        assert_eq!(line["status"], 200);
        assert_eq!(line["bytes_out"], 5);
        assert_eq!(line["path"], "/v2/models/m/infer");
        assert_eq!((&line["model"], &line["request_id"]), (&"m".into(), &"a\"\n".into()));
        assert!(lines.ends_with(b"}\n") && lines.iter().position(|&byte| byte == b'\n') == Some(lines.len() - 1));
    }

    #[test]
    fn a_client_that_leaves_has_a_status_too() {
        let log = AccessLog::new(Format::Json);
        drop(entry_of(&log, "/v2"));
        log.close();
        assert!(String::from_utf8(log.take(Duration::ZERO).0).unwrap().contains("\"status\":499"));
    }

    #[test]
    fn models_are_found_in_paths() {
        assert_eq!(model_of("/v2/models/a%20b/versions/1/infer"), "a b");
        for none in ["/v2/models/stats", "/v2/models/", "/v2/health/live", "/metrics"] {
            assert_eq!(model_of(none), "");
        }
    }

    #[test]
    fn long_names_take_no_more_memory_than_is_shown() {
        let log = AccessLog::new(Format::Json);
        let entry = entry_of(&log, &format!("/v2/models/{}", "%C3%A9".repeat(5000)));
        entry.seen.names(&ParsedCall { model_name: "é".repeat(5000), id: "i".repeat(5000), ..ParsedCall::default() });
        drop(entry);
        let state = log.lock();
        for text in [&state.records[0].path, &state.records[0].model, &state.records[0].request_id] {
            assert_eq!(text.chars().count(), MAX_SHOWN);
        }
    }

    #[test]
    fn what_the_writer_can_not_follow_is_counted() {
        let log = AccessLog::new(Format::Common);
        for _ in 0..MAX_WAITING + 3 {
            drop(entry_of(&log, "/"));
        }
        assert_eq!(log.take(Duration::ZERO).1, 3);
        log.close();
        assert_eq!(log.take(Duration::ZERO), (Vec::new(), 0));
    }
}
