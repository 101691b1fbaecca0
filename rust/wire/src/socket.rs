//! What a door listens at and what a connection is: TCP or a Unix domain socket, in the clear or under TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::connections::Life;
use crate::tls::Tls;
use crate::wire::{Phase, Wire};

/// How long a connection may be silent before the kernel asks whether its peer is still there.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// A listening socket that no runtime knows yet.
pub enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, Option<Arc<SocketFile>>),
}

impl Bound {
    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
            Self::Unix(listener, file) => Self::Unix(listener.try_clone()?, file.clone()),
        })
    }

    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix(..) => None,
        }
    }
}

/// The name of a Unix socket in the file system; removed when the last listener has gone.
pub struct SocketFile {
    pub path: PathBuf,
    /// Of the file that was made: a successor may have put its own in the place.
    pub inode: u64,
}

impl SocketFile {
    pub fn inode_of(path: &std::path::Path) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;

        std::fs::symlink_metadata(path).ok().map(|found| found.ino())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::inode_of(&self.path) == Some(self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A door that takes connections.
pub enum Door {
    Tcp(TcpListener),
    Unix(UnixListener, Option<Arc<SocketFile>>),
}

impl Door {
    /// To be called on the runtime that will use it.
    pub fn open(bound: Bound) -> io::Result<Self> {
        Ok(match bound {
            Bound::Tcp(listener) => Self::Tcp(TcpListener::from_std(listener)?),
            Bound::Unix(listener, file) => Self::Unix(UnixListener::from_std(listener)?, file),
        })
    }

    /// A connection, and where it comes from.
    pub async fn accept(&self) -> io::Result<(Raw, Option<SocketAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                // An answer is one write; waiting for more to send would only delay it.
                let _ = stream.set_nodelay(true);
                let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE_AFTER));
                Ok((Raw::Tcp(stream), Some(client)))
            }
            Self::Unix(listener, _) => Ok((Raw::Unix(listener.accept().await?.0), None)),
        }
    }
}

/// A connection as the kernel has it.
pub enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection as HTTP sees it.
pub enum Socket {
    Plain(Raw),
    Tls(Box<TlsStream<Raw>>),
}

impl Socket {
    /// Through the handshake, where there is one. None when that fails, takes too long, or when the connection or the
    /// server ends meanwhile.
    pub async fn enter(raw: Raw, tls: Option<&Tls>, life: &Life, wire: &Wire) -> Option<Self> {
        let Some(tls) = tls else { return Some(Self::Plain(raw)) };
        let mut phase = wire.phase.subscribe();
        tokio::select! {
            entered = tls.accept(raw) => entered,
            () = life.over(wire.options.read_timeout()) => None,
            _ = phase.wait_for(|&phase| phase >= Phase::Draining) => None,
        }
    }
}

macro_rules! each {
    ($self:ident, $($kind:ident)|+, $stream:ident => $call:expr) => {
        match $self.get_mut() { $(Self::$kind($stream) => $call,)+ }
    };
}

macro_rules! stream {
    ($name:ident, $($kind:ident)|+) => {
        impl AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                each!(self, $($kind)|+, stream => Pin::new(stream).poll_read(context, buffer))
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                each!(self, $($kind)|+, stream => Pin::new(stream).poll_write(context, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                each!(self, $($kind)|+, stream => Pin::new(stream).poll_write_vectored(context, slices))
            }

            fn is_write_vectored(&self) -> bool {
                match self { $(Self::$kind(stream) => stream.is_write_vectored(),)+ }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, $($kind)|+, stream => Pin::new(stream).poll_flush(context))
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, $($kind)|+, stream => Pin::new(stream).poll_shutdown(context))
            }
        }
    };
}

stream!(Raw, Tcp | Unix);
stream!(Socket, Plain | Tls);
