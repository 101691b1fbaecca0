//! Bodies compressed as gzip or deflate, both ways. Long ones are worked on beside the I/O thread.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::Compression;
use http::header::ACCEPT_ENCODING;
use http::HeaderMap;

/// What takes longer than this many bytes would take keeps other connections of the I/O thread waiting.
pub const OFFLOAD_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    /// The zlib format, as HTTP defines it.
    Deflate,
}

impl Coding {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }
}

/// How much time compressing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    /// By the name of its level; None for "none".
    pub fn of_level(level: &str) -> Option<Self> {
        match level {
            "low" => Some(Self::Low),
            "medium" => Some(Self::Medium),
            "high" => Some(Self::High),
            _ => None,
        }
    }

    fn compression(self) -> Compression {
        match self {
            Self::Low => Compression::fast(),
            Self::Medium => Compression::default(),
            Self::High => Compression::best(),
        }
    }
}

pub enum Fault {
    TooLong,
    Broken(String),
}

/// Run `work` on the blocking pool when it is about many bytes, else here.
pub async fn offload<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes <= OFFLOAD_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The caller's own guard turns this into a failed request.
        Err(error) => std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("cancelled"))),
    }
}

/// The inflated bytes, at most `limit` of them.
pub async fn inflate(coding: Coding, bytes: Bytes, limit: usize) -> Result<Bytes, Fault> {
    // A short body may inflate a thousandfold, so the size of the input says little here.
    offload(bytes.len().saturating_mul(16), move || match coding {
        Coding::Gzip => read_limited(MultiGzDecoder::new(&bytes[..]), limit),
        Coding::Deflate => read_limited(ZlibDecoder::new(&bytes[..]), limit),
    })
    .await
}

fn read_limited(decoder: impl Read, limit: usize) -> Result<Bytes, Fault> {
    let mut inflated = Vec::new();
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut inflated);
    read.map_err(|error| Fault::Broken(error.to_string()))?;
    if inflated.len() > limit {
        Err(Fault::TooLong)
    } else {
        Ok(inflated.into())
    }
}

/// The pieces of an answer as one compressed piece.
pub async fn deflate(coding: Coding, effort: Effort, pieces: Vec<Bytes>) -> Bytes {
    let size = pieces.iter().map(Bytes::len).sum();
    let compression = effort.compression();
    offload(size, move || match coding {
        Coding::Gzip => write_all(GzEncoder::new(Vec::new(), compression), &pieces, GzEncoder::finish),
        Coding::Deflate => write_all(ZlibEncoder::new(Vec::new(), compression), &pieces, ZlibEncoder::finish),
    })
    .await
}

fn write_all<W: Write>(mut encoder: W, pieces: &[Bytes], finish: fn(W) -> std::io::Result<Vec<u8>>) -> Bytes {
    // Writing to memory cannot fail.
    pieces.iter().for_each(|piece| drop(encoder.write_all(piece)));
    finish(encoder).unwrap_or_default().into()
}

/// The coding that the client prefers among ours, the first one of those it likes best; None for none, also when it likes
/// `identity` best or accepts anything (`*`).
pub fn accepted(headers: &HeaderMap) -> Option<Coding> {
    let mut best = (0.0, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        for offer in value.to_str().unwrap_or_default().split(',') {
            let (name, quality) = parse_offer(offer);
            let coding = match name.to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => Some(Coding::Gzip),
                "deflate" => Some(Coding::Deflate),
                "identity" => None,
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, coding);
            }
        }
    }
    best.1
}

/// `name` or `name;q=0.5`.
fn parse_offer(offer: &str) -> (&str, f32) {
    let mut fields = offer.split(';').map(str::trim);
    let name = fields.next().unwrap_or_default();
    let quality = fields.find_map(|field| field.strip_prefix("q=").or_else(|| field.strip_prefix("Q=")));
    (name, quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::{accepted, Coding};
    use http::header::ACCEPT_ENCODING;
    use http::HeaderMap;

    #[test]
    fn the_client_chooses_among_our_codings() {
        let cases = [
            ("gzip", Some(Coding::Gzip)),
            ("gzip, deflate", Some(Coding::Gzip)),
            ("deflate;q=1, gzip;q=0.5", Some(Coding::Deflate)),
            ("gzip;q=0", None),
            ("br, *", None),
            ("identity", None),
            ("identity, gzip", None),
            ("gzip, identity", Some(Coding::Gzip)),
            ("gzip;q=0.5, identity", None),
            ("identity;q=0.5, deflate;q=0.6", Some(Coding::Deflate)),
        ];
        for (value, expected) in cases {
            let headers: HeaderMap = [(ACCEPT_ENCODING, value.parse().unwrap())].into_iter().collect();
            assert_eq!(accepted(&headers), expected, "{value}");
        }
    }
}
