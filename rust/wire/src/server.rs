//! A running wire: its listening sockets, its threads, and its end.

use std::io;
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::bind::bind;
use crate::control::Listener;
use crate::courier::Courier;
use crate::gateway::Gateway;
use crate::options::Options;
use crate::socket::{Bound, Door};
use crate::tls::{Tls, TlsFiles};
use crate::wire::{Phase, Wire};
use crate::{grpc, http};

/// What clients may speak under TLS, the best first.
const HTTP_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];
const GRPC_PROTOCOLS: &[&[u8]] = &[b"h2"];

/// Threads beside each I/O thread for long bodies: parsing, inflating, compressing.
const POOL_THREADS: usize = 2;

/// What bound where; None for listeners that are off, and for Unix sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports {
    pub http: Option<u16>,
    pub grpc: Option<u16>,
    pub metrics: Option<u16>,
    pub sagemaker: Option<u16>,
    pub vertex_ai: Option<u16>,
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
    Http(Listener, Bound, Option<Arc<Tls>>),
    Grpc(Bound, Option<Arc<Tls>>),
}

impl Server {
    pub fn new(options: Options) -> Self {
        Self { wire: Wire::new(options), running: Mutex::default() }
    }

    /// Read every certificate and bind every listener, then serve all. The error names service, address and port; it is
    /// `InvalidInput` where a file of TLS or an address is no good.
    pub fn start(&self) -> io::Result<()> {
        let options = &self.wire.options;
        let http_tls = self.open_tls("HTTP", options.http_tls.as_ref(), HTTP_PROTOCOLS)?;
        let grpc_tls = self.open_tls("GRPC", options.grpc_tls.as_ref(), GRPC_PROTOCOLS)?;
        let metrics_tls = self.open_tls("Metrics", options.metrics_tls.as_ref(), HTTP_PROTOCOLS)?;
        let http = bind("HTTP", &options.http)?;
        let grpc = bind("GRPC", &options.grpc)?;
        let metrics = bind("Metrics", &options.metrics)?;
        let port = |bound: &[Bound]| bound.first().and_then(Bound::port);
        let bind_gateway = |gateway: Gateway| bind(gateway.service(), options.gateway(gateway).0);
        let [sagemaker, vertex_ai] = [bind_gateway(Gateway::SageMaker)?, bind_gateway(Gateway::VertexAi)?];
        let ports = Ports {
            http: port(&http),
            grpc: port(&grpc),
            metrics: port(&metrics),
            sagemaker: port(&sagemaker),
            vertex_ai: port(&vertex_ai),
        };

        let mut work = Vec::new();
        for bound in copies(http, options.http_threads)? {
            let works = bound.into_iter().map(|one| Work::Http(Listener::Http, one, http_tls.clone()));
            work.push(("charonia-http", works.collect::<Vec<_>>()));
        }
        for bound in copies(grpc, options.grpc_threads)? {
            work.push(("charonia-grpc", bound.into_iter().map(|one| Work::Grpc(one, grpc_tls.clone())).collect()));
        }
        for (gateway, bound) in [(Gateway::SageMaker, sagemaker), (Gateway::VertexAi, vertex_ai)] {
            for bound in copies(bound, options.gateway(gateway).1)? {
                let works = bound.into_iter().map(|one| Work::Http(Listener::Gateway(gateway), one, None));
                work.push(("charonia-http", works.collect()));
            }
        }
        if !metrics.is_empty() {
            let mut metrics = metrics.into_iter().map(|one| Work::Http(Listener::Metrics, one, metrics_tls.clone()));
            // Metrics are rare: they share a thread where there is one.
            match work.first_mut() {
                Some((_, works)) => works.extend(metrics.by_ref()),
                None => work.push(("charonia-http", metrics.collect())),
            }
        }
        let (ended_sender, ended) = mpsc::channel();
        let spawn = |(name, works)| spawn(name, works, &self.wire, ended_sender.clone());
        let threads = work.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        *self.lock() = Running { ports, threads, ended: Some(ended) };
        Ok(())
    }

    fn open_tls(
        &self,
        service: &'static str,
        files: Option<&TlsFiles>,
        protocols: &'static [&'static [u8]],
    ) -> io::Result<Option<Arc<Tls>>> {
        let open = |files: &TlsFiles| Tls::open(service, files.clone(), protocols, Arc::clone(&self.wire.remarks));
        let named = |why| io::Error::new(io::ErrorKind::InvalidInput, format!("TLS of {service}: {why}"));
        files.map(open).transpose().map_err(named)
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
        self.wire.remarks.close();
        for thread in threads {
            let _ = thread.join();
        }
        if let Some(access) = &self.wire.access {
            access.close();
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

/// One handle of each listening socket for each thread; they share its queue. Nothing where nothing listens.
fn copies(all: Vec<Bound>, threads: usize) -> io::Result<Vec<Vec<Bound>>> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let copy = |_| all.iter().map(Bound::try_clone).collect::<io::Result<Vec<_>>>();
    let mut copies = (1..threads).map(copy).collect::<io::Result<Vec<_>>>()?;
    copies.push(all);
    Ok(copies)
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
    // Registering a fresh socket fails only when the process has no descriptors left.
    match work {
        Work::Http(listener, bound, tls) => {
            if let Ok(door) = Door::open(bound) {
                http::serve(wire, door, tls, listener, courier).await;
            }
        }
        Work::Grpc(bound, tls) => {
            if let Ok(door) = Door::open(bound) {
                grpc::serve(wire, door, tls, courier).await;
            }
        }
    }
}
