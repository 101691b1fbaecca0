//! An HTTP body in pieces, plain or compressed, against the limits.
//!
//! Four characters come first: how long the pieces are ('0' for one), how the body is compressed ('0' not, '1' gzip,
//! '2' deflate), whether its length is told beforehand ('1'), and how much of it is JSON ('0' all, then in 16 bytes).

use std::io::Read;
use std::sync::{Arc, LazyLock};

use charonia_wire::http::body;
use charonia_wire::options::Options;
use charonia_wire::wire::Wire;
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::measure;
use super::pieces::{wait_for, Pieces};

const MAX_INPUT_BYTES: usize = 256;

/// What zlib takes for itself.
const INFLATER_BYTES: usize = 256 << 10;

static WIRE: LazyLock<Arc<Wire>> =
    LazyLock::new(|| Wire::new(Options { http_max_input_bytes: MAX_INPUT_BYTES, ..Options::default() }));

pub fn run(input: &[u8]) {
    let Some((choices, bytes)) = input.split_first_chunk::<4>() else { return };
    let [piece, coding, announced, json] = choices.map(|choice| usize::from(choice.wrapping_sub(b'0')));
    let json_length = json.checked_sub(1).map(|sixteens| sixteens * 16);
    let mut headers = HeaderMap::new();
    let coding = [None, Some("gzip"), Some("deflate")][coding % 3];
    headers.extend(coding.map(|name| (CONTENT_ENCODING, HeaderValue::from_static(name))));
    let pieces = Pieces::of(bytes, piece, announced == 1);
    LazyLock::force(&WIRE);
    let read = || wait_for(body::read(&WIRE, &headers, pieces, json_length));
    let got = measure::bounded(16 * bytes.len() + INFLATER_BYTES, read);
    let got = got.map(|(body, _permit)| body.to_vec()).map_err(|answer| answer.status().as_u16());
    assert_eq!(got, expected(bytes, coding, json_length));
    assert_eq!(WIRE.budget.used(), 0, "all that was taken was given back");
}

fn expected(bytes: &[u8], coding: Option<&str>, json_length: Option<usize>) -> Result<Vec<u8>, u16> {
    // JSON and tensors may be as long as the limit each.
    let limit = MAX_INPUT_BYTES + json_length.unwrap_or(0).min(MAX_INPUT_BYTES);
    if bytes.len() > limit {
        return Err(400);
    }
    match coding {
        Some("gzip") => inflated(MultiGzDecoder::new(bytes)),
        Some("deflate") => inflated(ZlibDecoder::new(bytes)),
        _ => Ok(bytes.to_vec()),
    }
}

fn inflated(decoder: impl Read) -> Result<Vec<u8>, u16> {
    let mut plain = Vec::new();
    let read = decoder.take(MAX_INPUT_BYTES as u64 + 1).read_to_end(&mut plain);
    match read {
        Ok(_) if plain.len() <= MAX_INPUT_BYTES => Ok(plain),
        _ => Err(400),
    }
}
