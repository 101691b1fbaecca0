//! Accepts gRPC connections and keeps them until the server ends.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::service::{self, Front};
use super::stalled::Outbox;
use crate::courier::Courier;
use crate::http::listen::drained;
use crate::http::stalled::Impatient;
use crate::wire::{Phase, Wire};

/// After a failed accept (no descriptors left, mostly) others get the time to end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much a client may send before it was read: a large tensor needs no round trip in between.
const WINDOW_BYTES: u32 = 16 << 20;

/// The largest frame a client may send. Larger ones cost more memory and were not faster.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// What a stream may have written that the connection did not send yet.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Calls in flight on one connection.
const MAX_STREAMS: u32 = 4096;

/// Calls of one connection that their client gave up before they were looked at. A client whose deadlines all pass under
/// load gives up many at once; what it may have open bounds it anyway.
const MAX_GIVEN_UP: usize = MAX_STREAMS as usize;

const MAX_HEADER_BYTES: u32 = 64 << 10;

/// A peer that is silent this long is asked whether it is there, and let go if it does not answer.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Serve until the phase says to stop accepting, then until the last connection has ended, none has a request that is
/// worth waiting for, or everything must.
pub async fn serve(wire: Arc<Wire>, listener: TcpListener, courier: Arc<Courier>) {
    // Every connection holds a sender; the receiver sees the end when the last one is gone.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let mut phase = wire.phase.subscribe();
    let hands = Arc::clone(&wire.hands);
    let front = Front::new(wire, courier);
    tokio::select! {
        () = accept_all(&front, &listener, &alive) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Exiting) => {}
    }
    drop((listener, alive));
    let mut draining = phase.clone();
    tokio::select! {
        _ = all_gone.recv() => {}
        () = drained(&mut draining, &hands) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Closed) => {}
    }
}

async fn accept_all(front: &Arc<Front>, listener: &TcpListener, alive: &mpsc::Sender<()>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => start(Arc::clone(front), stream, alive.clone()),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn start(front: Arc<Front>, stream: TcpStream, alive: mpsc::Sender<()>) {
    // An answer is one write; waiting for more to send would only delay it.
    let _ = stream.set_nodelay(true);
    tokio::spawn(async move {
        front.wire.counters.open_connections.add(1);
        keep(&front, stream).await;
        front.wire.counters.open_connections.sub(1);
        drop(alive);
    });
}

/// One connection until it ends. When the server exits, the client is told (GOAWAY) and what is in flight is finished.
async fn keep(front: &Arc<Front>, stream: TcpStream) {
    let patience = Duration::from_millis(front.wire.options.write_timeout_ms);
    let stream = TokioIo::new(Impatient::new(stream, patience, &front.wire.hands));
    let outbox = Arc::new(Outbox::new(&front.wire.hands));
    let answer = service_fn(|request| service::answer(Arc::clone(front), Arc::clone(&outbox), request));
    let mut served = std::pin::pin!(builder().serve_connection(stream, answer));
    let mut phase = front.wire.phase.subscribe();
    tokio::select! {
        _ = served.as_mut() => return,
        () = outbox.stalled(patience) => return,
        _ = phase.wait_for(|&phase| phase >= Phase::Exiting) => served.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = served => {}
        () = outbox.stalled(patience) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Closed) => {}
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_GIVEN_UP)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    builder
}
