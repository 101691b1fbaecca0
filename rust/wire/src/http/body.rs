//! Reads a request's body: within the size limit and the byte budget, inflated if it came compressed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, EXPECT};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answer::{self, Answer};
use super::compress::{self, Coding};
use crate::budget::Permit;
use crate::status::Code;
use crate::wire::Wire;

/// Pieces of a chunked body that are smaller than this count as chunks of a client that wastes our time.
const SMALL_CHUNK_BYTES: usize = 1024;
const MAX_SMALL_CHUNKS: usize = 65_536;

/// How much of a refused body is still read, and how long, so that a client that sends first and then reads sees
/// the refusal instead of a reset connection.
const MAX_DISCARD_BYTES: usize = 1 << 30;
const MAX_DISCARD_TIME: Duration = Duration::from_secs(10);

/// The whole body. `align_at` is the offset that shall lie at an aligned address (where the tensors begin).
pub async fn read(
    wire: &Wire,
    headers: &HeaderMap,
    body: Incoming,
    align_at: usize,
) -> Result<(Bytes, Option<Permit>), Answer> {
    let coding = content_coding(headers)?;
    let (bytes, mut permit) = Reader::new(wire, headers, body).read(align_at).await?;
    let Some(coding) = coding else { return Ok((bytes, permit)) };
    let limit = wire.options.http_max_input_bytes;
    let inflated = compress::inflate(coding, bytes, limit).await.map_err(|fault| match fault {
        compress::Fault::TooLong => too_long(limit, None),
        compress::Fault::Broken(why) => {
            let message = format!("the request body is not valid {}: {why}", coding.name());
            answer::error(Code::INVALID_ARGUMENT, &message)
        }
    })?;
    let held = permit.get_or_insert_with(|| Permit::empty(&wire.budget));
    if held.grow(inflated.len()).await {
        Ok((inflated, permit))
    } else {
        Err(over_budget())
    }
}

fn content_coding(headers: &HeaderMap) -> Result<Option<Coding>, Answer> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
    match value.to_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(None),
        "gzip" | "x-gzip" => Ok(Some(Coding::Gzip)),
        "deflate" => Ok(Some(Coding::Deflate)),
        other => {
            let message = format!("request bodies with Content-Encoding '{other}' are not supported");
            let mut answer = answer::error(Code::UNIMPLEMENTED, &message);
            answer.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"));
            Err(answer)
        }
    }
}

struct Reader<'a> {
    wire: &'a Wire,
    body: Incoming,
    expects_continue: bool,
    permit: Option<Permit>,
    small_chunks: usize,
}

impl<'a> Reader<'a> {
    fn new(wire: &'a Wire, headers: &HeaderMap, body: Incoming) -> Self {
        let expects_continue = headers.contains_key(EXPECT);
        Self { wire, body, expects_continue, permit: None, small_chunks: 0 }
    }

    async fn read(mut self, align_at: usize) -> Result<(Bytes, Option<Permit>), Answer> {
        let limit = self.wire.options.http_max_input_bytes;
        let announced = self.body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(size) = announced.filter(|&size| size > limit) {
            return Err(self.refuse(too_long(limit, Some(size))).await);
        }
        let first = match self.next().await? {
            None => return Ok((Bytes::new(), None)),
            // Most bodies come in one piece and are used where they lie.
            Some(first) if announced == Some(first.len()) => return Ok((first, self.permit)),
            Some(first) => first,
        };
        let mut whole = self.wire.bodies.buffer(announced.unwrap_or(first.len() * 2), align_at);
        whole.extend(&first);
        while let Some(piece) = self.next().await? {
            if whole.filled() + piece.len() > limit {
                return Err(self.refuse(too_long(limit, None)).await);
            }
            whole.extend(&piece);
        }
        Ok((whole.freeze(), self.permit))
    }

    /// The next piece that is not empty, counted against the budget.
    async fn next(&mut self) -> Result<Option<Bytes>, Answer> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(piece) = frame.into_data() else { continue };
            if piece.is_empty() {
                continue;
            }
            self.small_chunks += usize::from(piece.len() < SMALL_CHUNK_BYTES);
            if self.small_chunks > MAX_SMALL_CHUNKS {
                return Err(too_many_chunks());
            }
            let permit = self.permit.get_or_insert_with(|| Permit::empty(&self.wire.budget));
            if !permit.grow(piece.len()).await {
                return Err(over_budget());
            }
            return Ok(Some(piece));
        }
        Ok(None)
    }

    /// Read the rest and forget it, unless the client waits for a word before it sends.
    async fn refuse(mut self, answer: Answer) -> Answer {
        if self.expects_continue {
            return answer;
        }
        self.permit = None;
        let discard = async {
            let mut left = MAX_DISCARD_BYTES;
            while let Some(Ok(frame)) = self.body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(MAX_DISCARD_TIME, discard).await;
        answer
    }
}

fn too_long(limit: usize, size: Option<usize>) -> Answer {
    let size = size.map_or_else(|| format!("over {limit}"), |size| size.to_string());
    let message = format!(
        "a request body of {size} bytes exceeds the maximum allowed input size of {limit} bytes. \
         Use --http-max-input-size to increase the limit."
    );
    answer::error(Code::INVALID_ARGUMENT, &message)
}

fn too_many_chunks() -> Answer {
    let message = format!("the request body comes in more than {MAX_SMALL_CHUNKS} small chunks; send larger ones");
    let mut answer = answer::error(Code::INVALID_ARGUMENT, &message);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn over_budget() -> Answer {
    let message = "the server holds as many bytes of requests as it may; try again later";
    answer::error_with(StatusCode::SERVICE_UNAVAILABLE, message)
}

fn broken(error: &hyper::Error) -> Answer {
    answer::error(Code::INVALID_ARGUMENT, &format!("the request body could not be read: {error}"))
}
