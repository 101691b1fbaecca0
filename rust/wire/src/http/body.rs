//! Reads a request's body: within the size limit and the byte budget, inflated if it came compressed.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, EXPECT};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;

use super::answer::{self, Answer};
use super::compress::{self, Coding};
use crate::budget::Permit;
use crate::call::ParsedCall;
use crate::pace::Pace;
use crate::status::Code;
use crate::wire::Wire;

/// Chunks of a body, Triton's limit; those that are worth their while do not count.
const MAX_SMALL_CHUNKS: usize = 65_536;
const SMALL_CHUNK_BYTES: usize = 1024;

/// A client may announce more than it sends: no more than this is reserved before it comes.
pub const MAX_TRUSTED_BYTES: usize = 16 << 20;

/// How much of a refused body is still read, and how long, so that a client that sends first and then reads sees
/// the refusal instead of a reset connection.
const MAX_DISCARD_BYTES: usize = 1 << 30;
const MAX_DISCARD_TIME: Duration = Duration::from_secs(10);

/// The whole body. `json_length` is where its tensors begin, which shall lie at an aligned address; None when all of it
/// is JSON, 0 when none of it is.
pub async fn read<B>(
    wire: &Wire,
    headers: &HeaderMap,
    body: B,
    json_length: Option<usize>,
) -> Result<(Bytes, Option<Permit>), Answer>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let coding = content_coding(headers)?;
    let limit = Limit { bytes: wire.options.http_max_input_bytes, json_length };
    let (bytes, mut permit) = Reader::new(wire, headers, body, limit).read().await?;
    let Some(coding) = coding else { return Ok((bytes, permit)) };
    let inflated = compress::inflate(coding, bytes, limit.bytes).await.map_err(|fault| match fault {
        compress::Fault::TooLong => limit.inflated_too_long(),
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

/// Count the tensors of a call in the budget, as far as they are more than its body was.
pub async fn cover(parsed: &ParsedCall, permit: &mut Option<Permit>) -> Result<(), Answer> {
    let Some(permit) = permit else { return Ok(()) };
    let total = parsed.inputs.iter().map(|input| input.data.len()).sum();
    if permit.cover(total).await {
        return Ok(());
    }
    Err(over_budget())
}

/// The answer to a request whose body nobody wants.
pub async fn refuse<B>(wire: &Wire, headers: &HeaderMap, body: B, answer: Answer) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let limit = Limit { bytes: 0, json_length: None };
    Reader::new(wire, headers, body, limit).refuse(answer).await
}

/// How long a body may be: JSON and tensors each as long as the limit.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    json_length: Option<usize>,
}

impl Limit {
    fn total(self) -> usize {
        let json = self.json_length.map_or(0, |length| length.min(self.bytes));
        self.bytes.saturating_add(json)
    }

    /// `size` is None for a body that does not say how long it is.
    fn too_long(self, size: Option<usize>) -> Answer {
        let size = size.map_or_else(|| format!("over {}", self.total()), |size| size.to_string());
        let limit = self.bytes;
        // Clients match on these phrases.
        let sentence = match self.json_length {
            None => {
                format!("request JSON size of {size} bytes exceeds the maximum allowed input size of {limit} bytes")
            }
            Some(0) => {
                format!(
                    "Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes"
                )
            }
            Some(_) => format!("request size of {size} bytes exceeds the maximum allowed input size of {limit} bytes"),
        };
        refusal(&sentence)
    }

    fn inflated_too_long(self) -> Answer {
        refusal(&format!("Decompressed data size exceeds the maximum allowed value of {} bytes", self.bytes))
    }
}

fn refusal(sentence: &str) -> Answer {
    let message = format!("{sentence}. Use --http-max-input-size to increase the limit.");
    answer::error(Code::INVALID_ARGUMENT, &message)
}

fn content_coding(headers: &HeaderMap) -> Result<Option<Coding>, Answer> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?"));
    let Some(first) = values.next() else { return Ok(None) };
    // A body that is compressed twice is one of a coding that is not known.
    let all = values.fold(first.to_ascii_lowercase(), |all, value| all + ", " + value);
    match all.trim() {
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

struct Reader<'a, B> {
    wire: &'a Wire,
    body: B,
    limit: Limit,
    expects_continue: bool,
    permit: Option<Permit>,
    pace: Pace,
    small_chunks: usize,
}

impl<'a, B> Reader<'a, B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    fn new(wire: &'a Wire, headers: &HeaderMap, body: B, limit: Limit) -> Self {
        let expects_continue = headers.contains_key(EXPECT);
        let pace = Pace::new(wire.options.read_timeout());
        Self { wire, body, limit, expects_continue, permit: None, pace, small_chunks: 0 }
    }

    async fn read(mut self) -> Result<(Bytes, Option<Permit>), Answer> {
        let limit = self.limit.total();
        let announced = self.body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(size) = announced.filter(|&size| size > limit) {
            let refusal = self.limit.too_long(Some(size));
            return Err(self.refuse(refusal).await);
        }
        let first = match self.next().await? {
            None => return Ok((Bytes::new(), None)),
            // Most bodies come in one piece and are used where they lie.
            Some(first) if announced == Some(first.len()) => return Ok((first, self.permit)),
            Some(first) => first,
        };
        let align_at = self.limit.json_length.unwrap_or(0);
        let mut whole = self.wire.bodies.buffer(reserve(announced, first.len()), align_at);
        let mut next = Some(first);
        while let Some(piece) = next {
            if whole.filled() + piece.len() > limit {
                let refusal = self.limit.too_long(None);
                return Err(self.refuse(refusal).await);
            }
            whole.extend(&piece);
            next = self.next().await?;
        }
        Ok((whole.freeze(), self.permit))
    }

    /// The next piece that is not empty, counted against the budget.
    async fn next(&mut self) -> Result<Option<Bytes>, Answer> {
        while let Some(frame) = self.frame().await? {
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
            self.pace.came(piece.len());
            return Ok(Some(piece));
        }
        Ok(None)
    }

    async fn frame(&mut self) -> Result<Option<Frame<Bytes>>, Answer> {
        let (body, pace) = (&mut self.body, &mut self.pace);
        let next = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
            Poll::Pending => pace.poll_late(context).map(|()| Err(too_slow())),
            Poll::Ready(frame) => Poll::Ready(frame.transpose().map_err(|error| broken(&error))),
        });
        next.await
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

/// Room for a body of which the first piece has come: a client may announce more than it sends.
fn reserve(announced: Option<usize>, first: usize) -> usize {
    announced.map_or(first * 2, |size| size.min(MAX_TRUSTED_BYTES.max(first)))
}

fn too_many_chunks() -> Answer {
    // Clients match on this phrase.
    let sentence = format!("Chunked request body exceeds maximum of {MAX_SMALL_CHUNKS} non-empty chunks");
    closing(answer::error(Code::INVALID_ARGUMENT, &format!("{sentence}. Send fewer or larger HTTP chunks.")))
}

fn too_slow() -> Answer {
    let message = "the request body comes too slowly. Use --read-timeout-secs to give it more time.";
    closing(answer::error_with(StatusCode::REQUEST_TIMEOUT, message))
}

/// The connection ends with this answer: what is left of the request's body is not read.
fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn over_budget() -> Answer {
    let message = "the server holds as many bytes of requests as it may (--request-memory-limit); try again later";
    answer::error_with(StatusCode::SERVICE_UNAVAILABLE, message)
}

fn broken(error: &impl Display) -> Answer {
    answer::error(Code::INVALID_ARGUMENT, &format!("the request body could not be read: {error}"))
}
