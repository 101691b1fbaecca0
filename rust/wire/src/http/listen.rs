//! Accepts HTTP connections and keeps them until the server ends.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::{mpsc, watch};

use super::service::{self, Connection};
use super::stalled::Impatient;
use crate::connections::Place;
use crate::courier::Courier;
use crate::grpc::stalled::Outbox;
use crate::guarded::{Guarded, Rules};
use crate::in_hand::Hands;
use crate::listener::Listener;
use crate::socket::{Door, Raw, Socket};
use crate::tls::Tls;
use crate::wire::{Phase, Wire};

/// After a failed accept (no descriptors left, mostly) the one that gives way gets the time to end.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Windows of HTTP/2: enough for one large tensor in flight.
const WINDOW_BYTES: u32 = 16 << 20;

/// What hyper takes for one head at most; the read buffer is as large.
const MIN_BUFFER_BYTES: usize = 400 << 10;

/// Serve until the phase says to stop accepting, then until the last connection has ended, none has a request that is
/// worth waiting for, or everything must.
pub async fn serve(wire: Arc<Wire>, door: Door, tls: Option<Arc<Tls>>, kind: Listener, courier: Arc<Courier>) {
    // Every connection holds a sender; the receiver sees the end when the last one is gone.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let hands = Arc::clone(&wire.hands);
    let mut phase = wire.phase.subscribe();
    let acceptor = Acceptor::new(wire, tls, kind, courier);
    tokio::select! {
        () = acceptor.accept_all(&door, &alive) => {}
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

/// Resolves when the server drains and holds no request any more that came as a whole.
pub async fn drained(phase: &mut watch::Receiver<Phase>, hands: &Hands) {
    let _ = phase.wait_for(|&phase| phase >= Phase::Draining).await;
    hands.empty().await;
}

struct Acceptor {
    wire: Arc<Wire>,
    tls: Option<Arc<Tls>>,
    kind: Listener,
    courier: Arc<Courier>,
    server: HeaderValue,
    builder: Builder<TokioExecutor>,
}

impl Acceptor {
    fn new(wire: Arc<Wire>, tls: Option<Arc<Tls>>, kind: Listener, courier: Arc<Courier>) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        // No pipeline_flush: it would keep an answer back until the one after it is there.
        // Heads that take too long are the guard's to end: hyper would end idle connections with them.
        let options = &wire.options;
        builder.http1().header_read_timeout(None).max_buf_size(MIN_BUFFER_BYTES.max(options.max_header_bytes));
        let mut http2 = builder.http2();
        http2.initial_connection_window_size(WINDOW_BYTES).initial_stream_window_size(WINDOW_BYTES);
        http2.max_concurrent_streams(options.http2_max_streams);
        http2.max_pending_accept_reset_streams(options.http2_max_streams as usize);
        http2.max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX));
        let server = HeaderValue::from_str(&wire.options.server_header);
        let server = server.unwrap_or(HeaderValue::from_static("charonia"));
        Self { wire, tls, kind, courier, server, builder }
    }

    async fn accept_all(&self, door: &Door, alive: &mpsc::Sender<()>) {
        loop {
            if let Ok((raw, client)) = door.accept().await {
                self.start(raw, client, alive.clone());
            } else {
                self.wire.connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn start(&self, raw: Raw, client: Option<SocketAddr>, alive: mpsc::Sender<()>) {
        // Closed at once when there is no place for it.
        let Some(place) = self.wire.connections.admit() else { return };
        let wire = Arc::clone(&self.wire);
        let (courier, server) = (Arc::clone(&self.courier), self.server.clone());
        let life = Arc::clone(&place.life);
        let outbox = Arc::new(Outbox::new(&wire.hands));
        let (listener, secure) = (self.kind, self.tls.is_some());
        let forwards = listener == Listener::Http && wire.options.http_forward.is_some();
        let heads = forwards.then(Arc::<Mutex<_>>::default);
        let connection = Arc::new(Connection { wire, courier, life, outbox, listener, client, secure, heads, server });
        let (builder, tls) = (self.builder.clone(), self.tls.clone());
        tokio::spawn(async move {
            connection.wire.counters.open_connections.add(1);
            if let Some(socket) = Socket::enter(raw, tls.as_deref(), &place.life, &connection.wire).await {
                keep(&builder, &connection, &place, socket).await;
            }
            connection.wire.counters.open_connections.sub(1);
            drop(alive);
        });
    }
}

/// One connection until it ends; when the server drains it finishes what is in flight and no more.
async fn keep(builder: &Builder<TokioExecutor>, connection: &Arc<Connection>, place: &Place, socket: Socket) {
    let wire = &connection.wire;
    let options = &wire.options;
    let stream = Impatient::new(socket, options.write_timeout(), &wire.hands);
    let stream = Guarded::new(stream, &place.life, options.read_timeout(), Rules::http(options))
        .keeping(connection.heads.clone());
    let answer = service_fn(|request| service::serve(Arc::clone(connection), request));
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let mut phase = wire.phase.subscribe();
    let mut stalled = std::pin::pin!(connection.outbox.stalled(options.write_timeout()));
    tokio::select! {
        _ = served.as_mut() => return,
        () = place.life.over(Duration::from_millis(options.idle_timeout_ms)) => return,
        () = stalled.as_mut() => return,
        _ = phase.wait_for(|&phase| phase >= Phase::Draining) => served.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = served => {}
        () = stalled => {}
    }
}
