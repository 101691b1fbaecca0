//! One inference request: what it says, and the right to answer it once.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::HeaderMap;

use crate::budget::Permit;
use crate::courier::Wakes;
use crate::datatype::DataType;
use crate::forward::Forwarded;
use crate::inbox::{Inbox, Item};
use crate::reply::{Failure, Reply, ReplySink};
use crate::status::Code;
use crate::watch::Watch;

#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
}

/// Asks the stream of a decoupled model for a last answer without outputs; of no consequence for others.
pub const EMPTY_FINAL_PARAMETER: &str = "triton_enable_empty_final_response";

/// In the request's order.
pub type Parameters = Vec<(String, Parameter)>;

/// One input, with its bytes aligned to the item size (`InputTensor::data` of a raw request is the whole body).
#[derive(Clone, Debug, PartialEq)]
pub struct InputTensor {
    pub name: String,
    pub datatype: DataType,
    pub shape: Vec<i64>,
    pub data: Bytes,
    pub parameters: Parameters,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestedOutput {
    pub name: String,
    /// How many top classes to answer instead of the tensor; 0 for the tensor.
    pub classification: u32,
    /// HTTP's `binary_data`.
    pub binary: bool,
    /// The other parameters.
    pub parameters: Parameters,
}

/// What a request's bytes say, whichever protocol they came by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedCall {
    pub model_name: String,
    /// As the client wrote it, "" for none.
    pub model_version: String,
    pub id: String,
    /// Without `binary_data_output`, which is `binary_default`.
    pub parameters: Parameters,
    /// In the request's order, duplicates kept.
    pub inputs: Vec<InputTensor>,
    /// In the request's order, duplicates kept.
    pub outputs: Vec<RequestedOutput>,
    /// Outputs that are not asked for by name are answered as binary (HTTP only).
    pub binary_default: bool,
    /// A raw binary request: one input, whose name, datatype and shape come from the model's config.
    pub raw: bool,
    /// Headers that go with it to the model, beside its parameters.
    pub forwarded: Forwarded,
    /// What is wrong with the body, if that shows without the config. The inputs may be incomplete then.
    pub defect: Option<Failure>,
}

impl ParsedCall {
    /// Whether the answer to output `name` is binary (HTTP only).
    pub fn wants_binary(&self, name: &str) -> bool {
        let requested = self.outputs.iter().find(|output| output.name == name);
        requested.map_or(self.binary_default, |output| output.binary)
    }

    /// Whether an input or a requested output has parameters of its own; few have.
    pub fn has_tensor_parameters(&self) -> bool {
        let inputs = self.inputs.iter().map(|input| &input.parameters);
        inputs.chain(self.outputs.iter().map(|output| &output.parameters)).any(|parameters| !parameters.is_empty())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Grpc,
    GrpcStream,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::GrpcStream => "grpc_stream",
        }
    }
}

/// The read-only half of a call: shared with whoever still looks at an input after the call was answered.
pub struct Request {
    pub key: u64,
    pub protocol: Protocol,
    /// When its head had come, where that is wanted (`Wire::stamping`); else 0.
    pub begun_ns: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub arrival_ns: u64,
    /// 0 for none.
    pub deadline_ns: u64,
    pub parsed: ParsedCall,
    /// HTTP headers or gRPC metadata.
    pub headers: HeaderMap,
    pub signature: u64,
    /// The first dim that all inputs share; -1 when they differ or one has rank 0.
    pub batch_dim: i64,
    /// The bytes of the body in the budget, given back with the bytes.
    _permit: Option<Permit>,
}

/// What a connection knows about a request when it makes a call of it.
pub struct Arrival {
    pub protocol: Protocol,
    /// See `Request`.
    pub begun_ns: u64,
    pub arrival_ns: u64,
    /// 0 for none.
    pub deadline_ns: u64,
    pub headers: HeaderMap,
    pub permit: Option<Permit>,
}

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const SETTLED: u8 = 2;

/// The part of a call that its connection keeps, to cancel it.
pub struct Ticket {
    key: u64,
    state: AtomicU8,
    cancelled: AtomicBool,
    pub(crate) watch: Watch,
    inbox: Arc<Inbox>,
}

impl Ticket {
    /// The client has gone or its deadline passed. A call that waits in the inbox is not taken any more; the taker of
    /// one that was taken learns its key. Nothing happens when the call is settled.
    pub fn cancel(&self) {
        if self.state.load(Ordering::SeqCst) == SETTLED || self.cancelled.swap(true, Ordering::SeqCst) {
            return;
        }
        self.inbox.counters().cancelled_calls.add(1);
        if self.state.load(Ordering::SeqCst) == TAKEN {
            self.inbox.tell(Item::Cancelled(self.key));
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn tell(&self, news: Item) {
        self.inbox.tell(news);
    }
}

/// Cancels its call when dropped: keep it in the future that waits for the answer.
pub struct CancelGuard(pub Arc<Ticket>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
        self.0.leave();
    }
}

/// A request and the right to answer it. Settled by exactly one final reply; dropped without one, it answers INTERNAL.
pub struct Call {
    pub request: Arc<Request>,
    ticket: Arc<Ticket>,
    sink: Box<dyn ReplySink>,
}

impl Call {
    pub fn new(parsed: ParsedCall, arrival: Arrival, sink: Box<dyn ReplySink>, inbox: &Arc<Inbox>) -> Self {
        let key = next_key();
        let request = Arc::new(Request {
            key,
            protocol: arrival.protocol,
            begun_ns: arrival.begun_ns,
            arrival_ns: arrival.arrival_ns,
            deadline_ns: arrival.deadline_ns,
            signature: signature(&parsed),
            batch_dim: batch_dim(&parsed.inputs),
            parsed,
            headers: arrival.headers,
            _permit: arrival.permit,
        });
        let (state, cancelled) = (AtomicU8::new(QUEUED), AtomicBool::new(false));
        let watch = Watch::default();
        let ticket = Arc::new(Ticket { key, state, cancelled, watch, inbox: Arc::clone(inbox) });
        inbox.counters().infer_calls.add(1);
        inbox.counters().unsettled_calls.add(1);
        Self { request, ticket, sink }
    }

    pub fn guard(&self) -> CancelGuard {
        CancelGuard(Arc::clone(&self.ticket))
    }

    pub fn is_cancelled(&self) -> bool {
        self.ticket.is_cancelled()
    }

    /// Have `Item::Sent` told when its connection is done with it. False when that is so already.
    pub fn watch(&self) -> bool {
        self.ticket.watch.ask()
    }

    /// See `Watch::sent`.
    pub fn sent(&self) -> Option<(u64, u64)> {
        self.ticket.watch.sent()
    }

    /// Whether its client keeps up with the responses. What a cancelled call is sent is dropped, so there is room for it.
    pub fn has_room(&self) -> bool {
        self.is_cancelled() || self.sink.has_room()
    }

    /// The call leaves the inbox. False when its client has gone meanwhile: then nobody should see it any more.
    pub(crate) fn mark_taken(&self) -> bool {
        self.ticket.state.store(TAKEN, Ordering::SeqCst);
        !self.is_cancelled()
    }

    /// Answer. False (and counted) when the call is settled already.
    pub fn reply(&self, reply: Reply, wakes: &mut Wakes) -> bool {
        let counters = self.ticket.inbox.counters();
        let before = match reply.is_final() {
            true => self.ticket.state.swap(SETTLED, Ordering::SeqCst),
            false => self.ticket.state.load(Ordering::SeqCst),
        };
        if before == SETTLED {
            counters.late_replies.add(1);
            return false;
        }
        counters.replies.add(1);
        if reply.is_final() {
            counters.unsettled_calls.sub(1);
        }
        self.send(reply, wakes);
        true
    }

    pub fn fail(&self, code: Code, message: impl Into<String>, wakes: &mut Wakes) -> bool {
        self.reply(Reply::Err(Failure::new(code, message)), wakes)
    }

    /// A panic in an encoder fails this call and nobody else's.
    fn send(&self, reply: Reply, wakes: &mut Wakes) {
        let sent = catch_unwind(AssertUnwindSafe(|| self.sink.send(&self.request, reply, wakes)));
        if sent.is_err() {
            self.ticket.inbox.counters().panics.add(1);
            let model = &self.request.parsed.model_name;
            let failure = Failure::new(Code::INTERNAL, format!("the answer of model '{model}' could not be encoded"));
            let last = AssertUnwindSafe(|| self.sink.send(&self.request, Reply::Err(failure), wakes));
            let _ = catch_unwind(last);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.ticket.state.swap(SETTLED, Ordering::SeqCst) == SETTLED {
            return;
        }
        let counters = self.ticket.inbox.counters();
        counters.unsettled_calls.sub(1);
        if !self.is_cancelled() {
            counters.dropped_calls.add(1);
        }
        let model = &self.request.parsed.model_name;
        let failure =
            Failure::new(Code::INTERNAL, format!("the request to model '{model}' was lost inside the server"));
        self.send(Reply::Err(failure), &mut Wakes::default());
    }
}

/// Of a call of any kind.
pub fn next_key() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Equal for requests that ask the same of a model but for the batch size and the data.
fn signature(parsed: &ParsedCall) -> u64 {
    // Keyed per process, so that nobody outside can make two different requests collide.
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let mut hasher = KEY.get_or_init(RandomState::new).build_hasher();
    for input in &parsed.inputs {
        input.name.hash(&mut hasher);
        input.datatype.hash(&mut hasher);
        input.shape.len().hash(&mut hasher);
        input.shape.get(1..).unwrap_or_default().hash(&mut hasher);
    }
    for output in &parsed.outputs {
        output.name.hash(&mut hasher);
        output.classification.hash(&mut hasher);
    }
    hasher.finish()
}

fn batch_dim(inputs: &[InputTensor]) -> i64 {
    let mut dims = inputs.iter().map(|input| input.shape.first().copied().unwrap_or(-1));
    let first = dims.next().unwrap_or(-1);
    if dims.all(|dim| dim == first) {
        first
    } else {
        -1
    }
}
