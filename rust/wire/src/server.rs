//! A running wire: its listening sockets, its threads, and its end.

use std::io;
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::bind::bind;
use crate::courier::Courier;
use crate::listener::Listener;
use crate::options::Options;
use crate::socket::{Bound, Door};
use crate::tls::Tls;
use crate::wire::{Phase, Wire};
use crate::{grpc, http};

/// What clients may speak under TLS, the best first.
const HTTP_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];
const GRPC_PROTOCOLS: &[&[u8]] = &[b"h2"];

/// Threads beside each I/O thread for long bodies: parsing, inflating, compressing.
const POOL_THREADS: usize = 2;

/// The listeners of one server. Nothing is bound before `start`.
pub struct Server {
    pub wire: Arc<Wire>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// What bound where; None for listeners that are off, and for Unix sockets.
    ports: Vec<(Listener, Option<u16>)>,
    threads: Vec<JoinHandle<()>>,
    ended: Option<mpsc::Receiver<()>>,
}

/// What one I/O thread serves, perhaps among others.
struct Work {
    listener: Listener,
    bound: Bound,
    tls: Option<Arc<Tls>>,
}

impl Server {
    pub fn new(options: Options) -> Self {
        Self { wire: Wire::new(options), running: Mutex::default() }
    }

    /// Read every certificate and bind every listener, then serve all. The error names service, address and port; it is
    /// `InvalidInput` where a file of TLS or an address is no good.
    pub fn start(&self) -> io::Result<()> {
        let certified = Listener::ALL.map(|listener| Ok((listener, self.open_tls(listener)?)));
        let certified = certified.into_iter().collect::<io::Result<Vec<_>>>()?;
        let mut opened = Vec::new();
        for (listener, tls) in certified {
            let bound = bind(listener.service(), self.wire.options.listen(listener).place)?;
            opened.push((listener, bound, tls));
        }
        let port = |bound: &[Bound]| bound.first().and_then(Bound::port);
        let ports = opened.iter().map(|(listener, bound, _)| (*listener, port(bound))).collect();
        let (ended_sender, ended) = mpsc::channel();
        let spawn = |works: Vec<Work>| spawn(works, &self.wire, ended_sender.clone());
        let threads = self.share(opened)?.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        *self.lock() = Running { ports, threads, ended: Some(ended) };
        Ok(())
    }

    /// The work of each I/O thread.
    fn share(&self, opened: Vec<(Listener, Vec<Bound>, Option<Arc<Tls>>)>) -> io::Result<Vec<Vec<Work>>> {
        let mut threads = Vec::new();
        let mut metrics = Vec::new();
        for (listener, bound, tls) in opened {
            for bound in copies(bound, self.wire.options.listen(listener).threads)? {
                let works = bound.into_iter().map(|bound| Work { listener, bound, tls: tls.clone() });
                match listener {
                    Listener::Metrics => metrics.extend(works),
                    _ => threads.push(works.collect::<Vec<_>>()),
                }
            }
        }
        // Metrics are rare: they share a thread where there is one.
        match threads.first_mut() {
            Some(first) => first.append(&mut metrics),
            None if metrics.is_empty() => {}
            None => threads.push(metrics),
        }
        Ok(threads)
    }

    fn open_tls(&self, listener: Listener) -> io::Result<Option<Arc<Tls>>> {
        let Some(files) = self.wire.options.listen(listener).tls else { return Ok(None) };
        let protocols = if listener == Listener::Grpc { GRPC_PROTOCOLS } else { HTTP_PROTOCOLS };
        let tls = Tls::open(listener.service(), files.clone(), protocols, Arc::clone(&self.wire.remarks));
        let named = |why| io::Error::new(io::ErrorKind::InvalidInput, format!("TLS of {}: {why}", listener.service()));
        tls.map(Some).map_err(named)
    }

    /// None for a listener that is off, and for a Unix socket.
    pub fn port(&self, listener: Listener) -> Option<u16> {
        self.lock().ports.iter().find(|(open, _)| *open == listener).and_then(|(_, port)| *port)
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

fn spawn(works: Vec<Work>, wire: &Arc<Wire>, ended: mpsc::Sender<()>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(POOL_THREADS).build()?;
    let wire = Arc::clone(wire);
    let is_grpc = works.first().is_some_and(|work| work.listener == Listener::Grpc);
    let name = if is_grpc { "charonia-grpc" } else { "charonia-http" };
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
    let Work { listener, bound, tls } = work;
    // Registering a fresh socket fails only when the process has no descriptors left.
    let Ok(door) = Door::open(bound) else { return };
    match listener {
        Listener::Grpc => grpc::serve(wire, door, tls, courier).await,
        _ => http::serve(wire, door, tls, listener, courier).await,
    }
}
