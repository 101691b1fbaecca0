//! A running wire: its listening sockets, its threads, and its end.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::{Builder, Runtime};

use crate::control::Listener;
use crate::courier::Courier;
use crate::options::{Listen, Options};
use crate::wire::{Phase, Wire};
use crate::{grpc, http};

/// Connections that the kernel holds while the I/O thread is busy.
const BACKLOG: i32 = 4096;

/// Threads beside each I/O thread for long bodies: parsing, inflating, compressing.
const POOL_THREADS: usize = 2;

/// What bound where; None for listeners that are off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports {
    pub http: Option<u16>,
    pub grpc: Option<u16>,
    pub metrics: Option<u16>,
}

/// The listeners of one server. Nothing is bound before `start`.
pub struct Server {
    pub wire: Arc<Wire>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    ports: Ports,
    threads: Vec<JoinHandle<()>>,
    ended: Option<mpsc::Receiver<()>>,
}

/// What one I/O thread serves.
enum Work {
    Http(TcpListener),
    Metrics(TcpListener),
    Grpc(TcpListener),
}

impl Server {
    pub fn new(options: Options) -> Self {
        Self { wire: Wire::new(options), running: Mutex::default() }
    }

    /// Bind every listener, then serve all. The error names service, address and port.
    pub fn start(&self) -> io::Result<()> {
        let options = &self.wire.options;
        let http = bind("HTTP", &options.http)?;
        let grpc = bind("GRPC", &options.grpc)?;
        let metrics = bind("Metrics", &options.metrics)?;
        let port =
            |listener: &Option<TcpListener>| listener.as_ref().and_then(|one| one.local_addr().ok()).map(|a| a.port());
        let ports = Ports { http: port(&http), grpc: port(&grpc), metrics: port(&metrics) };

        let mut work = Vec::new();
        for listener in copies(http, options.http_threads)? {
            work.push(("charonia-http", vec![Work::Http(listener)]));
        }
        for listener in copies(grpc, options.grpc_threads)? {
            work.push(("charonia-grpc", vec![Work::Grpc(listener)]));
        }
        if let Some(metrics) = metrics {
            // Metrics are rare: they share a thread where there is one.
            match work.first_mut() {
                Some((_, works)) => works.push(Work::Metrics(metrics)),
                None => work.push(("charonia-http", vec![Work::Metrics(metrics)])),
            }
        }
        let (ended_sender, ended) = mpsc::channel();
        let spawn = |(name, works)| spawn(name, works, &self.wire, ended_sender.clone());
        let threads = work.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        *self.lock() = Running { ports, threads, ended: Some(ended) };
        Ok(())
    }

    pub fn ports(&self) -> Ports {
        self.lock().ports
    }

    /// Wait up to `timeout` for what is in flight, then end everything. False when something was cut off.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        self.wire.enter(Phase::Draining);
        let Running { threads, ended, .. } = std::mem::take(&mut *self.lock());
        let wait =
            |ended: &mpsc::Receiver<()>| ended.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok();
        let in_time = ended.is_none_or(|ended| threads.iter().all(|_| wait(&ended)));
        self.wire.enter(Phase::Closed);
        self.wire.inbox.close();
        self.wire.control.close();
        for thread in threads {
            let _ = thread.join();
        }
        in_time
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

/// None when nothing should listen.
fn bind(service: &str, listen: &Listen) -> io::Result<Option<TcpListener>> {
    let Some(port) = listen.port else { return Ok(None) };
    let place = format!("{}:{port}", listen.address);
    let named = |error: io::Error| {
        let why = match error.kind() {
            // Scripts look for these words.
            io::ErrorKind::AddrInUse => format!("Unavailable - Socket '{place}' already in use"),
            _ => format!("cannot listen on {place}: {error}"),
        };
        io::Error::new(error.kind(), format!("failed to start {service} service: {why}"))
    };
    let mut addresses = (listen.address.as_str(), port).to_socket_addrs().map_err(named)?;
    let address = addresses.next().ok_or_else(|| named(io::ErrorKind::AddrNotAvailable.into()))?;
    bind_socket(address, listen.reuse_port).map(Some).map_err(named)
}

fn bind_socket(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    {
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(reuse_port)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// One handle of the listening socket for each thread; they share its queue.
fn copies(listener: Option<TcpListener>, threads: usize) -> io::Result<Vec<TcpListener>> {
    let Some(listener) = listener else { return Ok(Vec::new()) };
    let mut all = (1..threads).map(|_| listener.try_clone()).collect::<io::Result<Vec<_>>>()?;
    all.push(listener);
    Ok(all)
}

fn spawn(name: &str, works: Vec<Work>, wire: &Arc<Wire>, ended: mpsc::Sender<()>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(POOL_THREADS).build()?;
    let wire = Arc::clone(wire);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        run(runtime, works, &wire);
        // Nobody waits for it any more when the receiver is gone.
        let _ = ended.send(());
    })
}

fn run(runtime: Runtime, works: Vec<Work>, wire: &Arc<Wire>) {
    runtime.block_on(async {
        let courier = Arc::new(Courier::default());
        tokio::spawn(Arc::clone(&courier).run());
        let mut serving = tokio::task::JoinSet::new();
        for work in works {
            serving.spawn(serve(work, Arc::clone(wire), Arc::clone(&courier)));
        }
        while serving.join_next().await.is_some() {}
    });
    runtime.shutdown_background();
}

async fn serve(work: Work, wire: Arc<Wire>, courier: Arc<Courier>) {
    let listener = tokio::net::TcpListener::from_std;
    // Registering a fresh socket fails only when the process has no descriptors left.
    match work {
        Work::Http(http) => {
            if let Ok(listener) = listener(http) {
                http::serve(wire, listener, Listener::Http, courier).await;
            }
        }
        Work::Metrics(metrics) => {
            if let Ok(listener) = listener(metrics) {
                http::serve(wire, listener, Listener::Metrics, courier).await;
            }
        }
        Work::Grpc(grpc) => {
            if let Ok(listener) = listener(grpc) {
                grpc::serve(wire, listener, courier).await;
            }
        }
    }
}
