//! How much memory a message will take when it is parsed, before it is.
//!
//! An empty input is two bytes on the wire and more than a hundred in memory, so the length of a message says little
//! about what it costs. What it costs is counted in the budget.

use bytes::{Buf, Bytes};
use prost::encoding::{decode_key, decode_varint, skip_field, DecodeContext, WireType};

/// The largest record that a field of a few bytes can become: an input tensor.
const RECORD_BYTES: usize = 160;

/// A number of one byte on the wire becomes eight.
const NUMBER_GROWTH: usize = 8;

/// What an element of `bytes_contents` takes beside its bytes, which are shared.
const TEXT_BYTES: usize = size_of::<Bytes>();

/// Bytes that the records of a `ModelInferRequest` will take beside the message's own; at most `usize::MAX`.
///
/// Looks at no more than the lengths. A message that is malformed weighs what was seen of it: parsing it will fail.
pub fn of_request(message: &[u8]) -> usize {
    let mut weight = 0;
    each_part(message, |tag, part| {
        weight += RECORD_BYTES;
        match tag {
            INPUTS => each_part(part, |tag, part| {
                weight += RECORD_BYTES;
                match tag {
                    SHAPE => weight += part.len() * NUMBER_GROWTH,
                    CONTENTS => weight += of_contents(part),
                    _ => {}
                }
            }),
            OUTPUTS => each_part(part, |_, _| weight += RECORD_BYTES),
            _ => {}
        }
    });
    weight
}

fn of_contents(contents: &[u8]) -> usize {
    let (mut texts, mut text_bytes) = (0, 0);
    each_part(contents, |tag, part| {
        if tag == BYTES_CONTENTS {
            texts += 1;
            text_bytes += part.len();
        }
    });
    texts * TEXT_BYTES + (contents.len() - text_bytes) * NUMBER_GROWTH
}

const INPUTS: u32 = 5;
const OUTPUTS: u32 = 6;
const SHAPE: u32 = 3;
const CONTENTS: u32 = 5;
const BYTES_CONTENTS: u32 = 8;

/// Call `visit` with the tag and the bytes of each length-delimited field.
fn each_part<'a>(mut message: &'a [u8], mut visit: impl FnMut(u32, &'a [u8])) {
    while let Ok((tag, kind)) = decode_key(&mut message) {
        if kind != WireType::LengthDelimited {
            if skip_field(kind, tag, &mut message, DecodeContext::default()).is_err() {
                return;
            }
            continue;
        }
        let length = decode_varint(&mut message).ok().and_then(|length| usize::try_from(length).ok());
        let Some(part) = length.and_then(|length| message.get(..length)) else { return };
        message.advance(part.len());
        visit(tag, part);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::grpc::messages::{InferInputTensor, InferTensorContents, ModelInferRequest};

    fn weight(request: &ModelInferRequest) -> usize {
        of_request(&request.encode_to_vec())
    }

    #[test]
    fn empty_records_weigh_more_than_their_bytes() {
        let one = InferInputTensor::default;
        let request = ModelInferRequest { inputs: vec![one(); 1000], ..ModelInferRequest::default() };
        assert_eq!(weight(&request), 1000 * RECORD_BYTES);
        assert!(size_of::<InferInputTensor>() <= RECORD_BYTES);
    }

    #[test]
    fn raw_bytes_weigh_nothing_and_typed_ones_do() {
        let request = ModelInferRequest { raw_input_contents: vec![vec![0; 1 << 20].into()], ..Default::default() };
        assert_eq!(weight(&request), RECORD_BYTES);
        let contents = InferTensorContents { bytes_contents: vec![bytes::Bytes::new(); 500], ..Default::default() };
        let input = InferInputTensor { contents: Some(Box::new(contents)), shape: vec![1], ..Default::default() };
        let request = ModelInferRequest { inputs: vec![input], ..Default::default() };
        assert!((500 * TEXT_BYTES..1000 * TEXT_BYTES).contains(&weight(&request)));
    }

    #[test]
    fn what_is_malformed_is_left_to_the_parser() {
        assert_eq!(of_request(b"\xff\xff\xff"), 0);
        assert_eq!(of_request(b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0);
        assert_eq!(of_request(b""), 0);
    }
}
