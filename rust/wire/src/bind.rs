//! From an address as the operator writes it to listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::options::Listen;
use crate::socket::{Bound, SocketFile};

/// Connections that the kernel holds while the I/O thread is busy.
const BACKLOG: i32 = 4096;

/// Nothing when nothing should listen. A host name may stand for several addresses; all of them get the same port.
pub fn bind(service: &str, listen: &Listen) -> io::Result<Vec<Bound>> {
    let Some(port) = listen.port else { return Ok(Vec::new()) };
    let place = match unix_name(&listen.address) {
        Some(_) => listen.address.clone(),
        None if listen.address.contains(':') => format!("[{}]:{port}", listen.address),
        None => format!("{}:{port}", listen.address),
    };
    let bound = match unix_name(&listen.address) {
        Some(name) => bind_unix(&name).map(|one| vec![one]),
        None => bind_tcp(&listen.address, port, listen.reuse_port),
    };
    bound.map_err(|error| {
        let why = match error.kind() {
            // Scripts look for these words.
            io::ErrorKind::AddrInUse => format!("Unavailable - Socket '{place}' already in use"),
            _ => format!("cannot listen on {place}: {error}"),
        };
        io::Error::new(error.kind(), format!("failed to start {service} service: {why}"))
    })
}

fn bind_tcp(address: &str, port: u16, reuse_port: bool) -> io::Result<Vec<Bound>> {
    let mut all = Vec::<Bound>::new();
    let mut known = Vec::new();
    for mut address in (address, port).to_socket_addrs()? {
        if known.contains(&address) {
            continue;
        }
        known.push(address);
        if let Some(first) = all.first().and_then(Bound::port) {
            address.set_port(first);
        }
        match bind_address(address, reuse_port) {
            Ok(socket) => all.push(Bound::Tcp(socket.into())),
            // A name may stand for addresses that this machine does not have.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && known.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    if all.is_empty() {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    Ok(all)
}

fn bind_address(address: SocketAddr, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    listen_at(socket, &address.into())
}

fn listen_at(socket: Socket, address: &SockAddr) -> io::Result<Socket> {
    socket.set_nonblocking(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

enum UnixName<'a> {
    File(&'a Path),
    Abstract(&'a str),
}

/// `unix:path`, `unix:///path` and `unix-abstract:name`, as gRPC's clients write them.
fn unix_name(address: &str) -> Option<UnixName<'_>> {
    if let Some(name) = address.strip_prefix("unix-abstract:") {
        return Some(UnixName::Abstract(name));
    }
    let path = address.strip_prefix("unix:")?;
    Some(UnixName::File(Path::new(path.strip_prefix("//").unwrap_or(path))))
}

fn bind_unix(name: &UnixName<'_>) -> io::Result<Bound> {
    let socket = || Socket::new(Domain::UNIX, Type::STREAM, None);
    match name {
        UnixName::Abstract(name) => {
            let address = SockAddr::unix(format!("\0{name}"))?;
            Ok(Bound::Unix(listen_at(socket()?, &address)?.into(), None))
        }
        UnixName::File(path) => {
            let address = SockAddr::unix(path)?;
            remove_stale(path, &address)?;
            let listener = listen_at(socket()?, &address)?;
            let file = SocketFile::inode_of(path).map(|inode| Arc::new(SocketFile { path: path.to_path_buf(), inode }));
            Ok(Bound::Unix(listener.into(), file))
        }
    }
}

/// A server that was killed leaves its socket's file behind. One where somebody answers stays, and so does any other file.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of this name that is no socket"));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match probe.connect(address) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str) -> Listen {
        Listen { address: address.to_owned(), port: Some(0), reuse_port: false }
    }

    fn refusal(address: &str) -> String {
        match bind("HTTP", &listen(address)) {
            Ok(_) => panic!("{address} was bound"),
            Err(error) => error.to_string(),
        }
    }

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("charonia-bind-{}-{name}", std::process::id()))
    }

    #[test]
    fn every_address_of_a_name_has_one_port() {
        let bound = bind("HTTP", &listen("localhost")).unwrap();
        assert!(bound.iter().all(|one| one.port() == bound[0].port() && one.port() != Some(0)));
    }

    #[test]
    fn a_socket_file_lives_as_long_as_its_listener() {
        let path = scratch("lives");
        let address = format!("unix:{}", path.display());
        let bound = bind("HTTP", &listen(&address)).unwrap();
        assert!(path.exists());
        assert!(refusal(&address).contains("already in use"));
        let copy = bound[0].try_clone().unwrap();
        drop(bound);
        assert!(path.exists());
        drop(copy);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_server_left_is_replaced() {
        let path = scratch("stale");
        let address = format!("unix://{}", path.display());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = bind("HTTP", &listen(&address)).unwrap();
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_stay() {
        let path = scratch("file");
        std::fs::write(&path, "mine").unwrap();
        assert!(refusal(&format!("unix:{}", path.display())).contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_successor_keeps_its_file() {
        let path = scratch("successor");
        let bound = bind("HTTP", &listen(&format!("unix:{}", path.display()))).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        drop(bound);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_path_that_is_too_long_is_named() {
        let long = format!("unix:/tmp/{}", "x".repeat(200));
        assert!(refusal(&long).contains(&long));
    }
}
