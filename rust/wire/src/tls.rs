//! TLS of one door: its certificate, and the handshake of a new connection.
//!
//! The files are looked at again when a handshake begins, at most once in a while, so that a certificate is renewed
//! without a restart. A new pair that can't be used changes nothing: the one before it serves on.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio_rustls::rustls::crypto::{ring, CryptoProvider};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::old_certificates::TakesOld;
use crate::remarks::{Remarks, Weight};
use crate::socket::{Raw, Socket};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// No certificate, key or list of roots is longer.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Where the parts of a door's identity are, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and a root.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Who may have signed the certificate that each client must show; None when clients need none.
    pub client_roots: Option<PathBuf>,
}

impl From<(PathBuf, PathBuf, Option<PathBuf>)> for TlsFiles {
    fn from((certificate, key, client_roots): (PathBuf, PathBuf, Option<PathBuf>)) -> Self {
        Self { certificate, key, client_roots }
    }
}

pub struct Tls {
    service: &'static str,
    files: TlsFiles,
    protocols: &'static [&'static [u8]],
    remarks: Arc<Remarks>,
    state: Mutex<State>,
}

struct State {
    config: Arc<ServerConfig>,
    looked: Instant,
    stamps: Vec<Option<Stamp>>,
    /// Why the files of these stamps can't be used, as long as nobody was told.
    fault: Option<String>,
}

/// Changes when a file is written or replaced.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Tls {
    /// The error names the file and the reason.
    pub fn open(
        service: &'static str,
        files: TlsFiles,
        protocols: &'static [&'static [u8]],
        remarks: Arc<Remarks>,
    ) -> Result<Arc<Self>, String> {
        let stamps = files.stamps();
        let config = files.load(protocols)?;
        let state = Mutex::new(State { config, looked: Instant::now(), stamps, fault: None });
        Ok(Arc::new(Self { service, files, protocols, remarks, state }))
    }

    /// One handshake; None when it fails. Who calls it bounds its time.
    pub async fn accept(&self, raw: Raw) -> Option<Socket> {
        match TlsAcceptor::from(self.config()).accept(raw).await {
            Ok(stream) => Some(Socket::Tls(Box::new(stream))),
            Err(error) => {
                self.remarks.say(Weight::Detail, format!("{}: a TLS handshake failed: {error}", self.service));
                None
            }
        }
    }

    fn config(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_INTERVAL {
            state.looked = Instant::now();
            self.look(&mut state);
        }
        Arc::clone(&state.config)
    }

    fn look(&self, state: &mut State) {
        let stamps = self.files.stamps();
        if stamps == state.stamps {
            // Told at the second look only: at the first, one of two files may have been new.
            if let Some(fault) = state.fault.take() {
                let message = format!("{}: {fault}; the certificate before it serves on", self.service);
                self.remarks.say(Weight::Error, message);
            }
            return;
        }
        state.stamps = stamps;
        state.fault = match self.files.load(self.protocols) {
            Err(fault) => Some(fault),
            Ok(config) => {
                state.config = config;
                let certificate = self.files.certificate.display();
                let message = format!("{}: new connections get the renewed certificate {certificate}", self.service);
                self.remarks.say(Weight::Notice, message);
                None
            }
        };
    }
}

impl TlsFiles {
    fn stamps(&self) -> Vec<Option<Stamp>> {
        let paths = [Some(&self.certificate), Some(&self.key), self.client_roots.as_ref()];
        paths.into_iter().flatten().map(|path| Stamp::of(path)).collect()
    }

    fn load(&self, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.client_roots {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots(path)?);
                let library = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
                let library = library.build().map_err(|error| in_file(path, &error))?;
                let algorithms = provider.signature_verification_algorithms;
                builder.with_client_cert_verifier(Arc::new(TakesOld { library, roots, algorithms }))
            }
        };
        let identity = SingleCertAndKey::from(self.identity(&provider)?);
        let mut config = builder.with_cert_resolver(Arc::new(identity));
        if self.client_roots.is_some() {
            // A session that is taken up again is not asked for its certificate, which may have expired since.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = protocols.iter().map(|&protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    /// The library's own check of the pair takes certificates of X.509's version 3 only. What `openssl x509 -req` signs
    /// without extensions is of version 1, and clients do take that.
    fn identity(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let chain = certificates(&self.certificate)?;
        let key = provider.key_provider.load_private_key(key(&self.key)?);
        let key = key.map_err(|error| in_file(&self.key, &error))?;
        let is_of = |public: &[u8]| chain[0].windows(public.len()).any(|part| part == public);
        if key.public_key().is_some_and(|public| !is_of(&public)) {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            return Err(format!("the certificate {certificate} and the key {key} can't be used together"));
        }
        Ok(CertifiedKey::new(chain, key))
    }
}

impl Stamp {
    /// None when there is no such file, or none that may be looked at.
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let found = fs::metadata(path).ok()?;
        Some(Self { modified: found.modified().ok(), bytes: found.len(), inode: found.ino() })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| in_file(path, &error))?;
    if found.is_empty() {
        return Err(in_file(path, &"no certificate in PEM (BEGIN CERTIFICATE)"));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    let is_encrypted = bytes.windows(9).any(|part| part == b"ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match is_encrypted {
        true => in_file(path, &"the key is encrypted, and there is nobody to ask for its password; store it decrypted"),
        false => in_file(path, &format!("no private key in PEM: {error}")),
    })
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for root in certificates(path)? {
        store.add(root).map_err(|error| in_file(path, &error))?;
    }
    Ok(store)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let found = fs::metadata(path).map_err(|error| in_file(path, &error))?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return Err(in_file(path, &"this is no file of a certificate or key"));
    }
    fs::read(path).map_err(|error: io::Error| in_file(path, &error))
}

fn in_file(path: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", path.display())
}
