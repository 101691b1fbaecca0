//! Accepts gRPC connections and keeps them until the server ends.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::mpsc;

use super::link::Link;
use super::service::{self, Front};
use crate::authority::Authorities;
use crate::connections::Life;
use crate::courier::Courier;
use crate::guarded::{Guarded, Rules};
use crate::http::listen::{drained, ACCEPT_PAUSE};
use crate::http::stalled::Impatient;
use crate::options::Options;
use crate::socket::{Door, Raw, Socket};
use crate::tls::Tls;
use crate::wire::{Phase, Wire};

/// How much a client may send before it was read: a large tensor needs no round trip in between.
const WINDOW_BYTES: u32 = 16 << 20;

/// The largest frame a client may send. Larger ones cost more memory and were not faster.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// What a stream may have written that the connection did not send yet.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Serve until the phase says to stop accepting, then until the last connection has ended, none has a request that is
/// worth waiting for, or everything must.
pub async fn serve(wire: Arc<Wire>, door: Door, tls: Option<Arc<Tls>>, courier: Arc<Courier>) {
    // Every connection holds a sender; the receiver sees the end when the last one is gone.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let mut phase = wire.phase.subscribe();
    let hands = Arc::clone(&wire.hands);
    let front = Front::new(wire, courier);
    tokio::select! {
        () = accept_all(&front, &door, tls.as_ref(), &alive) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Exiting) => {}
    }
    drop((door, alive));
    let mut draining = phase.clone();
    tokio::select! {
        _ = all_gone.recv() => {}
        () = drained(&mut draining, &hands) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Closed) => {}
    }
}

async fn accept_all(front: &Arc<Front>, door: &Door, tls: Option<&Arc<Tls>>, alive: &mpsc::Sender<()>) {
    loop {
        if let Ok((raw, client)) = door.accept().await {
            start(Arc::clone(front), tls.cloned(), raw, client, alive.clone());
        } else {
            front.wire.connections.make_room();
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

fn start(front: Arc<Front>, tls: Option<Arc<Tls>>, raw: Raw, client: Option<SocketAddr>, alive: mpsc::Sender<()>) {
    // Closed at once when there is no place for it.
    let Some(place) = front.wire.connections.admit() else { return };
    tokio::spawn(async move {
        front.wire.counters.open_connections.add(1);
        if let Some(socket) = Socket::enter(raw, tls.as_deref(), &place.life, &front.wire).await {
            keep(&front, &place.life, socket, client).await;
        }
        front.wire.counters.open_connections.sub(1);
        drop((place, alive));
    });
}

/// One connection until it ends. When the server exits, or the connection is old enough, the client is told (GOAWAY)
/// and what is in flight is finished.
async fn keep(front: &Arc<Front>, life: &Arc<Life>, socket: Socket, client: Option<SocketAddr>) {
    let wire = &front.wire;
    let options = &wire.options;
    let patience = options.write_timeout();
    let stream = Impatient::new(socket, patience, &wire.hands);
    let stream = Guarded::new(stream, life, options.read_timeout(), Rules::grpc(options))
        // Only gRPC's clients over Unix sockets, which have no address, need it.
        .mending(client.is_none().then(Authorities::default));
    let link = Link::new(life, client, &wire.hands);
    let answer = service_fn(|request| service::answer(Arc::clone(front), Arc::clone(&link), request));
    let mut served = std::pin::pin!(builder(options).serve_connection(TokioIo::new(stream), answer));
    let mut phase = wire.phase.subscribe();
    let mut over = std::pin::pin!(life.over(Duration::from_millis(options.idle_timeout_ms)));
    let mut stalled = std::pin::pin!(link.outbox.stalled(patience));
    let mut grace = Duration::MAX;
    tokio::select! {
        _ = served.as_mut() => return,
        () = stalled.as_mut() => return,
        () = over.as_mut() => return,
        () = aged(options.grpc_max_connection_age_ms) => {
            grace = Duration::from_millis(never_as_long(options.grpc_max_connection_age_grace_ms));
        }
        _ = phase.wait_for(|&phase| phase >= Phase::Exiting) => {}
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        _ = served => {}
        () = stalled => {}
        () = over => {}
        () = tokio::time::sleep(grace) => {}
        _ = phase.wait_for(|&phase| phase >= Phase::Closed) => {}
    }
}

/// Resolves when a connection is old; never for an age of 0. Those that came at one time do not all end at one time.
async fn aged(age_ms: u64) {
    if age_ms == 0 {
        return std::future::pending().await;
    }
    let tenth = age_ms / 10;
    let spread = RandomState::new().hash_one(0) % (2 * tenth + 1);
    tokio::time::sleep(Duration::from_millis((age_ms - tenth).saturating_add(spread))).await;
}

fn never_as_long(limit_ms: u64) -> u64 {
    if limit_ms == 0 {
        u64::MAX
    } else {
        limit_ms
    }
}

fn builder(options: &Options) -> Builder<TokioExecutor> {
    let keepalive = &options.grpc_keepalive;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_concurrent_streams(options.http2_max_streams)
        // A client whose deadlines all pass under load gives up many calls at once, before they were looked at.
        .max_pending_accept_reset_streams(options.http2_max_streams as usize)
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_millis(keepalive.time_ms))
        .keep_alive_timeout(Duration::from_millis(keepalive.timeout_ms));
    builder
}
