//! `WireServer`: takes and replies, and the server's life.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use charonia_wire::control::ControlCall;
use charonia_wire::courier::Wakes;
use charonia_wire::gateway::{Alias, Gateway};
use charonia_wire::inbox::Item;
use charonia_wire::listener::Listener;
use charonia_wire::load::Report;
use charonia_wire::reply::Reply;
use charonia_wire::server::Server;
use charonia_wire::table::{Entry, Published};
use charonia_wire::wire::Phase;
use http::HeaderValue;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMapping};

use crate::call::InferCall;
use crate::control::{HttpCall, RpcCall};
use crate::counters::Counters;
use crate::options::WireOptions;
use crate::reply::{collect, failure, reply, Answered};
use crate::shelf::{AnswerShelf, KeptAnswer};

/// Longer waits are cut to this; a clock that far ahead cannot be told.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Batches with more bytes than this, or more replies, are encoded without the GIL: giving it away and getting it
/// back costs more than encoding a few small answers.
const ENCODE_ATTACHED_BYTES: usize = 16 << 10;
const ENCODE_ATTACHED_REPLIES: usize = 4;

#[pyclass(frozen, module = "charonia._wire")]
pub struct WireServer {
    server: Server,
}

#[pymethods]
impl WireServer {
    #[new]
    fn new(options: &WireOptions) -> Self {
        Self { server: Server::new(options.options.clone()) }
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.server.start()).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
            _ => error.into(),
        })
    }

    #[getter]
    fn ports(&self) -> HashMap<&'static str, Option<u16>> {
        Listener::ALL.into_iter().map(|listener| (listener.name(), self.server.port(listener))).collect()
    }

    #[pyo3(signature = (live, ready, models, asks = false, shelves = None))]
    fn publish(
        &self,
        live: bool,
        ready: bool,
        models: &Bound<'_, PyMapping>,
        asks: bool,
        shelves: Option<&Bound<'_, PyMapping>>,
    ) -> PyResult<()> {
        let items = models.items()?.extract::<Vec<((String, String), (bool, u64, bool))>>()?;
        let shelves = shelves.map(|shelves| shelves.items()?.extract::<Vec<(_, Py<AnswerShelf>)>>()).transpose()?;
        let mut shelves: HashMap<(String, String), _> = shelves.into_iter().flatten().collect();
        let entry = |(id, (ready, route, decoupled))| {
            let shelf = shelves.remove(&id).map(|shelf| Arc::clone(&shelf.get().shelf));
            let (name, version) = id;
            (name, version, Entry { ready, route, decoupled, shelf })
        };
        self.server.wire.publish(Published::new(live, ready, items.into_iter().map(entry)).asking(asks));
        Ok(())
    }

    fn publish_gateway(&self, gateway: &str, paths: &Bound<'_, PyMapping>) -> PyResult<()> {
        let no_gateway = || PyValueError::new_err(format!("'{gateway}' is no gateway"));
        let gateway = Gateway::of_name(gateway).ok_or_else(no_gateway)?;
        let items = paths.items()?.extract::<Vec<(String, (String, Vec<(String, u16)>))>>()?;
        let alias = |(path, (meant, failures)): (String, (String, _))| {
            Alias::new(&meant, failures).map(|alias| (path, Arc::new(alias))).map_err(PyValueError::new_err)
        };
        self.server.wire.gateways.publish(gateway, items.into_iter().map(alias).collect::<PyResult<_>>()?);
        Ok(())
    }

    fn take<'py>(&self, py: Python<'py>, max_items: usize, timeout_s: f64) -> PyResult<Bound<'py, PyList>> {
        let inbox = &self.server.wire.inbox;
        // Under load there is something already, and the GIL need not be given away to look.
        let (mut items, mut retired) = inbox.try_take(max_items);
        let deadline = Instant::now() + duration(timeout_s);
        while items.is_empty() {
            // Lent memory that came back alone: drop it here, attached, and go on waiting.
            drop(retired);
            let left = deadline.saturating_duration_since(Instant::now());
            (items, retired) = py.detach(|| inbox.take(max_items, left));
            if items.is_empty() && retired.is_empty() {
                break;
            }
        }
        PyList::new(py, items.into_iter().map(|item| item_to_python(py, item)).collect::<PyResult<Vec<_>>>()?)
    }

    fn take_route<'py>(
        &self,
        py: Python<'py>,
        route: u64,
        max_items: usize,
        timeout_s: f64,
    ) -> PyResult<Bound<'py, PyList>> {
        let inbox = &self.server.wire.inbox;
        let (calls, retired) = py.detach(|| inbox.take_route(route, max_items, duration(timeout_s)));
        drop(retired);
        let calls = calls.into_iter().map(|call| Py::new(py, InferCall { call }));
        PyList::new(py, calls.collect::<PyResult<Vec<_>>>()?)
    }

    #[pyo3(signature = (route, count = 1))]
    fn wake_route(&self, route: u64, count: usize) {
        self.server.wire.inbox.wake_route(route, count);
    }

    fn take_control<'py>(&self, py: Python<'py>, max_items: usize, timeout_s: f64) -> PyResult<Bound<'py, PyList>> {
        let (calls, news) = py.detach(|| self.server.wire.control.take(max_items, duration(timeout_s)));
        let taken = PyList::empty(py);
        calls.into_iter().try_for_each(|call| taken.append(control_to_python(py, call)?))?;
        news.into_iter().try_for_each(|key| taken.append(key))?;
        Ok(taken)
    }

    fn wake_control(&self) {
        self.server.wire.control.wake();
    }

    fn take_access<'py>(&self, py: Python<'py>, timeout_s: f64) -> (Bound<'py, PyBytes>, u64) {
        let Some(access) = &self.server.wire.access else { return (PyBytes::new(py, b""), 0) };
        let (lines, dropped) = py.detach(|| access.take(duration(timeout_s)));
        (PyBytes::new(py, &lines), dropped)
    }

    fn stamp(&self, on: bool) {
        self.server.wire.stamping.set(on);
    }

    fn reply_batch(&self, py: Python<'_>, replies: &Bound<'_, PyAny>) -> PyResult<()> {
        let inbox = &self.server.wire.inbox;
        // A malformed reply is the caller's error: then none of them is sent.
        send(py, collect(replies, |item| reply(item, inbox))?);
        Ok(())
    }

    fn keep(&self, shelf: &AnswerShelf, answer: &Bound<'_, PyAny>) -> PyResult<Option<KeptAnswer>> {
        let (call, reply) = reply(answer, &self.server.wire.inbox)?;
        let Reply::Ok(response) = reply else { return Ok(None) };
        let kept = shelf.shelf.keep(&call.get().call.request.parsed, response);
        Ok(kept.map(|kept| KeptAnswer { kept }))
    }

    fn close_shelves(&self, closed: bool) {
        self.server.wire.shelves_closed.store(closed, Ordering::Relaxed);
    }

    #[allow(clippy::unused_self)] // The stub's shape: replies and failures are given to the same object.
    fn fail_batch(&self, py: Python<'_>, failures: &Bound<'_, PyAny>) -> PyResult<()> {
        send(py, collect(failures, failure)?);
        Ok(())
    }

    fn set_exiting(&self) {
        self.server.wire.enter(Phase::Exiting);
    }

    fn stop_accepting(&self) {
        self.server.wire.enter(Phase::NotAccepting);
    }

    fn shutdown(&self, py: Python<'_>, timeout_s: f64) -> bool {
        let in_time = py.detach(|| self.server.shutdown(duration(timeout_s)));
        // What came back with the last connections; later takes find nothing more.
        let (_, retired) = self.server.wire.inbox.try_take(0);
        drop(retired);
        in_time
    }

    #[pyo3(signature = (report))]
    fn publish_load(&self, report: Option<(String, String)>) -> PyResult<()> {
        let value =
            |text: String| HeaderValue::try_from(text).map_err(|error| PyValueError::new_err(error.to_string()));
        let report = report.map(|(text, json)| PyResult::Ok(Report { text: value(text)?, json: value(json)? }));
        self.server.wire.load.publish(report.transpose()?);
        Ok(())
    }

    fn take_remarks(&self, py: Python<'_>, timeout_s: f64) -> Vec<(&'static str, String)> {
        let remarks = py.detach(|| self.server.wire.remarks.take(duration(timeout_s)));
        remarks.into_iter().map(|(weight, text)| (weight.name(), text)).collect()
    }

    fn counters(&self) -> Counters {
        Counters::read(&self.server.wire)
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(MAX_WAIT).min(MAX_WAIT)
}

fn item_to_python(py: Python<'_>, item: Item) -> PyResult<Bound<'_, PyAny>> {
    match item {
        Item::Call(call) => Ok(Bound::new(py, InferCall { call })?.into_any()),
        Item::Cancelled(key) | Item::Room(key) | Item::Sent(key) => Ok(key.into_pyobject(py)?.into_any()),
    }
}

fn control_to_python(py: Python<'_>, call: ControlCall) -> PyResult<Bound<'_, PyAny>> {
    match call {
        ControlCall::Http(call) => Ok(Bound::new(py, HttpCall { call })?.into_any()),
        ControlCall::Rpc(call) => Ok(Bound::new(py, RpcCall { call })?.into_any()),
    }
}

/// Encode and hand over; the connections are woken once, at the end.
fn send(py: Python<'_>, answered: Vec<Answered>) {
    let size = |reply: &Reply| match reply {
        Reply::Ok(response) => response.outputs.iter().map(|output| output.data.len()).sum(),
        Reply::Err(_) | Reply::End => 0,
    };
    let bytes: usize = answered.iter().map(|(_, reply)| size(reply)).sum();
    let detached = bytes > ENCODE_ATTACHED_BYTES || answered.len() > ENCODE_ATTACHED_REPLIES;
    let send_all = || {
        let mut wakes = Wakes::default();
        let sent = answered.into_iter().map(|(call, reply)| {
            call.get().call.reply(reply, &mut wakes);
            call
        });
        sent.collect::<Vec<_>>()
    };
    // The calls are dropped attached.
    drop(if detached { py.detach(send_all) } else { send_all() });
}
