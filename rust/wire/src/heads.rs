//! The heads of an HTTP/1 connection's requests as they were sent: HTTP's library gives names in lower case only.
//!
//! Follows the requests just far enough to know where the next head begins. What it can't follow it gives up: then names
//! are in lower case.

use std::collections::VecDeque;

use httparse::{Request, EMPTY_HEADER};

/// As many headers as HTTP's library takes.
const MAX_HEADERS: usize = 100;

/// A head's bytes, or a chunk's first line, are no longer than this where anybody answers.
const MAX_HEAD_BYTES: usize = 1 << 20;
const MAX_LINE_BYTES: usize = 4 << 10;

pub struct Heads {
    place: Place,
    /// Those that have come as a whole and that nobody asked for yet. As many as fit into one read.
    whole: VecDeque<Vec<u8>>,
}

/// Where in its requests the connection is.
enum Place {
    Head(Vec<u8>),
    /// So many bytes of a body are left, and what comes behind it.
    Bytes(u64, Then),
    /// A line of a chunked body.
    Line(Vec<u8>, Kind),
    Lost,
}

#[derive(Clone, Copy)]
enum Then {
    Head,
    Chunk,
}

#[derive(Clone, Copy)]
enum Kind {
    Size,
    Trailer,
}

impl Default for Heads {
    fn default() -> Self {
        Self { place: Place::Head(Vec::new()), whole: VecDeque::new() }
    }
}

impl Heads {
    /// Look at what has come next.
    pub fn received(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match &mut self.place {
                Place::Lost => return,
                Place::Head(head) => gather_head(head, bytes),
                Place::Line(line, _) => gather_line(line, bytes),
                Place::Bytes(left, _) => usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len()),
            };
            bytes = &bytes[used..];
            self.place = self.next(used);
        }
    }

    /// The head of the next request, as it was sent.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.whole.pop_front()
    }

    /// Not HTTP/1 after all.
    pub fn give_up(&mut self) {
        *self = Self { place: Place::Lost, whole: VecDeque::new() };
    }

    fn next(&mut self, used: usize) -> Place {
        match std::mem::replace(&mut self.place, Place::Lost) {
            Place::Lost => Place::Lost,
            Place::Head(head) if ends_head(&head) => {
                let place = behind(&head);
                self.whole.push_back(head);
                place
            }
            Place::Head(head) if head.len() > MAX_HEAD_BYTES => Place::Lost,
            Place::Line(line, kind) if line.ends_with(b"\n") => behind_line(&line, kind),
            Place::Line(line, _) if line.len() > MAX_LINE_BYTES => Place::Lost,
            Place::Bytes(left, then) => match (left - used as u64, then) {
                (0, Then::Head) => Place::Head(Vec::new()),
                (0, Then::Chunk) => Place::Line(Vec::new(), Kind::Size),
                (left, then) => Place::Bytes(left, then),
            },
            same @ (Place::Head(_) | Place::Line(..)) => same,
        }
    }
}

/// Adds to `head` up to its end; how many bytes that were. Empty lines before a request are not part of it.
fn gather_head(head: &mut Vec<u8>, bytes: &[u8]) -> usize {
    if head.is_empty() {
        let empty = bytes.iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
        if empty > 0 {
            return empty;
        }
    }
    for (index, &byte) in bytes.iter().enumerate() {
        head.push(byte);
        if byte == b'\n' && ends_head(head) {
            return index + 1;
        }
    }
    bytes.len()
}

fn gather_line(line: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let length = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
    line.extend_from_slice(&bytes[..length]);
    length
}

fn ends_head(head: &[u8]) -> bool {
    head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n")
}

/// What follows a whole head.
fn behind(head: &[u8]) -> Place {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    if !request.parse(head).is_ok_and(|status| status.is_complete()) {
        return Place::Lost;
    }
    let find = |name: &str| request.headers.iter().rfind(|header| header.name.eq_ignore_ascii_case(name));
    if let Some(coding) = find("transfer-encoding") {
        let is_chunked = coding.value.to_ascii_lowercase().trim_ascii().ends_with(b"chunked");
        return if is_chunked { Place::Line(Vec::new(), Kind::Size) } else { Place::Lost };
    }
    let Some(length) = find("content-length") else { return Place::Head(Vec::new()) };
    match std::str::from_utf8(length.value).ok().and_then(|text| text.trim().parse().ok()) {
        None => Place::Lost,
        Some(0) => Place::Head(Vec::new()),
        Some(length) => Place::Bytes(length, Then::Head),
    }
}

fn behind_line(line: &[u8], kind: Kind) -> Place {
    match kind {
        Kind::Trailer if line.trim_ascii().is_empty() => Place::Head(Vec::new()),
        Kind::Trailer => Place::Line(Vec::new(), Kind::Trailer),
        Kind::Size => match chunk_size(line) {
            None => Place::Lost,
            Some(0) => Place::Line(Vec::new(), Kind::Trailer),
            // With the end of line behind it.
            Some(size) => size.checked_add(2).map_or(Place::Lost, |bytes| Place::Bytes(bytes, Then::Chunk)),
        },
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTS: &[u8] = b"GET /1 HTTP/1.1\r\nHost: A\r\nX-One: 1\r\n\r\n\
        \r\nPOST /2 HTTP/1.1\r\nHost: A\r\nContent-Length: 26\r\n\r\nGET /no HTTP/1.1\r\nA: 1\r\n\r\n\
        POST /3 HTTP/1.1\r\nHost: A\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nA:\r\n\r\r\n0\r\nT: 1\r\n\r\n\
        GET /4 HTTP/1.1\nX-Four: 4\n\n";

    fn first_lines(heads: &mut Heads) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(head) = heads.take() {
            lines.push(String::from_utf8(head).unwrap().lines().next().unwrap().to_owned());
        }
        lines
    }

    #[test]
    fn heads_are_found_however_the_bytes_come() {
        let wanted = ["GET /1 HTTP/1.1", "POST /2 HTTP/1.1", "POST /3 HTTP/1.1", "GET /4 HTTP/1.1"];
        for size in [1, 2, 3, 7, 64, REQUESTS.len()] {
            let mut heads = Heads::default();
            REQUESTS.chunks(size).for_each(|piece| heads.received(piece));
            assert_eq!(first_lines(&mut heads), wanted, "{size}");
        }
    }

    #[test]
    fn names_are_kept_as_they_were_sent() {
        let mut heads = Heads::default();
        heads.received(b"GET / HTTP/1.1\r\nx-LOWER-Upper: 1\r\n\r\n");
        assert!(heads.take().unwrap().windows(13).any(|part| part == b"x-LOWER-Upper"));
        assert!(heads.take().is_none());
    }

    #[test]
    fn what_is_no_request_is_given_up() {
        for bytes in [
            "\0\0\n\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            let mut heads = Heads::default();
            heads.received(bytes.as_bytes());
            heads.take();
            heads.received(b"GET / HTTP/1.1\r\n\r\n");
            assert!(heads.take().is_none(), "{bytes:?}");
        }
    }
}
