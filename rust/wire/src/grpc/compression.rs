//! Message compression: `grpc-encoding` of a request, and the same for its answer.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};

use super::encode::Framed;
use super::frame::PREFIX_BYTES;
use crate::http::compress::{self, Coding, Effort, Fault};
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

/// How an answer is compressed.
#[derive(Clone, Copy)]
pub struct Packing {
    pub coding: Coding,
    effort: Effort,
}

impl Packing {
    /// As the server is set to; where it is not, who compresses its request (`asked`) wants a compressed answer. Never
    /// what the client does not say that it reads.
    pub fn of_answer(asked: Option<Coding>, effort: Option<Effort>, headers: &HeaderMap) -> Option<Self> {
        let read = |coding: &Coding| is_accepted(*coding, headers);
        let coding = match effort {
            Some(_) => [Coding::Gzip, Coding::Deflate].into_iter().find(read),
            None => asked.filter(read),
        };
        coding.map(|coding| Self { coding, effort: effort.unwrap_or(Effort::Low) })
    }
}

/// Whether the client says that it reads answers in this coding.
fn is_accepted(coding: Coding, headers: &HeaderMap) -> bool {
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
            let message = format!(
                "the decompressed message is larger than max ({limit_bytes} bytes). Use --grpc-max-message-size to increase the limit."
            );
            Failure::new(Code::RESOURCE_EXHAUSTED, message)
        }
        Fault::Broken(why) => {
            let message = format!("the message is not valid {}: {why}", coding.name());
            Failure::new(Code::INVALID_ARGUMENT, message)
        }
    })
}

/// The framed message compressed, and framed anew. One that would not get shorter stays as it is.
pub async fn deflate(Packing { coding, effort }: Packing, framed: Framed) -> Framed {
    let plain_bytes: usize = framed.chunks.iter().map(Bytes::len).sum();
    let mut plain: Vec<Bytes> = framed.chunks.iter().cloned().collect();
    if let Some(first) = plain.first_mut() {
        *first = first.split_off(PREFIX_BYTES);
    }
    let message = compress::deflate(coding, effort, plain).await;
    if message.len() + PREFIX_BYTES >= plain_bytes {
        return Framed { coding: Some(coding), ..framed };
    }
    let mut prefix = BytesMut::with_capacity(PREFIX_BYTES);
    prefix.put_u8(1);
    // Hardly longer than what it was made of, which had room in 32 bits.
    prefix.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    Framed { chunks: [prefix.freeze(), message].into(), coding: Some(coding) }
}
