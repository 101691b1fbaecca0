//! The JSON of an HTTP request, and whatever follows it.
//!
//! Two characters come first. The first one is '1' for tight limits; the second one says how many bytes at the end are no
//! JSON ('0' for none).

use bytes::Bytes;
use charonia_wire::options::RequestLimits;
use charonia_wire::tensor::decode_request;

use super::{accepted, measure};

/// A byte of JSON becomes so many bytes at most: `0,` is eight, and a vector that grows has room for twice of that;
/// an output's name takes more, a parameter's most.
const GROWTH: usize = 32;

pub fn run(input: &[u8]) {
    let Some((&[limits, tail], body)) = input.split_first_chunk() else { return };
    let limits = if limits & 1 == 1 { accepted::TIGHT } else { RequestLimits::default() };
    let json_length = body.len().saturating_sub(usize::from(tail.wrapping_sub(b'0')));
    let bytes = Bytes::copy_from_slice(body);
    let decode = || decode_request("m", "1", &bytes, json_length, limits);
    let call = measure::bounded(GROWTH * body.len(), decode);
    if let Some(failure) = &call.defect {
        return accepted::refusal(failure, body.len());
    }
    accepted::call(&call, limits);
    let written = call.inputs.iter().filter(|input| !bytes.as_ptr_range().contains(&input.data.as_ptr()));
    let tail_bytes = body.len() - json_length;
    assert!(written.map(|input| input.data.len()).all(|size| size <= limits.max_data_bytes.max(tail_bytes)));
    is_json(&body[..json_length]);
}

/// What we read others read too, but for what we read beyond JSON.
fn is_json(text: &[u8]) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let Ok(text) = std::str::from_utf8(text) else { return };
    if text.contains("NaN") || text.contains("Inf") {
        return;
    }
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        assert!(error.to_string().starts_with("number out of range"), "accepted, but: {error}");
    }
}
