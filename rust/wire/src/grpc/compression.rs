//! Message compression: `grpc-encoding` of a request, and the same for its answer.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};

use super::encode::Framed;
use super::frame::PREFIX_BYTES;
use crate::http::compress::{self, Coding, Fault};
use crate::reply::Failure;
use crate::status::Code;

/// What this server understands, as sent in `grpc-accept-encoding`.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,deflate,gzip");

/// How compressed messages of this request are compressed, if some may be. UNIMPLEMENTED for an unknown encoding.
pub fn of_request(headers: &HeaderMap) -> Result<Option<Coding>, Failure> {
    let Some(value) = headers.get("grpc-encoding") else { return Ok(None) };
    match value.as_bytes() {
        b"identity" => Ok(None),
        b"gzip" => Ok(Some(Coding::Gzip)),
        b"deflate" => Ok(Some(Coding::Deflate)),
        other => {
            let other = String::from_utf8_lossy(other);
            let message = format!("grpc-encoding '{other}' is not supported, expected identity, deflate or gzip");
            Err(Failure::new(Code::UNIMPLEMENTED, message))
        }
    }
}

/// Whether the client says that it reads answers in this coding.
pub fn is_accepted(coding: Coding, headers: &HeaderMap) -> bool {
    let accepted = headers.get("grpc-accept-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|name| name.trim() == coding.name())
}

/// The plain bytes of a compressed message; never more than `limit_bytes` are made.
pub async fn inflate(coding: Option<Coding>, message: Bytes, limit_bytes: usize) -> Result<Bytes, Failure> {
    let Some(coding) = coding else {
        return Err(Failure::new(Code::INVALID_ARGUMENT, "a compressed message came without a grpc-encoding header"));
    };
    compress::inflate(coding, message, limit_bytes).await.map_err(|fault| match fault {
        Fault::TooLong => {
            let message = format!("the decompressed message is larger than max ({limit_bytes} bytes)");
            Failure::new(Code::RESOURCE_EXHAUSTED, message)
        }
        Fault::Broken(why) => {
            let message = format!("the message is not valid {}: {why}", coding.name());
            Failure::new(Code::INVALID_ARGUMENT, message)
        }
    })
}

/// The framed message compressed, and framed anew.
pub async fn deflate(coding: Coding, mut framed: Framed) -> Framed {
    if let Some(first) = framed.chunks.front_mut() {
        *first = first.split_off(PREFIX_BYTES);
    }
    let message = compress::deflate(coding, framed.chunks.into()).await;
    let mut prefix = BytesMut::with_capacity(PREFIX_BYTES);
    prefix.put_u8(1);
    // Hardly longer than what it was made of, which had room in 32 bits.
    prefix.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    Framed { chunks: [prefix.freeze(), message].into(), coding: Some(coding) }
}
