//! Any body, cut anywhere between JSON and binary tail: an answer or a defect, never a panic.
#![no_main]

use bytes::Bytes;
use charonia_wire::options::RequestLimits;
use charonia_wire::status::Code;
use charonia_wire::tensor::{check, decode_request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (tail, body) = input;
    let json_length = body.len().saturating_sub(usize::from(tail));
    let call = decode_request("m", "1", &Bytes::from(body), json_length, RequestLimits::default());
    match call.defect {
        Some(failure) => assert_eq!(failure.code, Code::INVALID_ARGUMENT),
        None => {
            for input in call.inputs.iter().filter(|input| input.parameters.is_empty()) {
                check::input("m", input).expect("what was accepted is whole");
            }
        }
    }
});
