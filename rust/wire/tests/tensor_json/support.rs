//! Requests as JSON, decoded, and what became of them.

use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::options::RequestLimits;
use charonia_wire::status::Code;
use charonia_wire::tensor::decode_request;

pub fn decode(json: impl AsRef<[u8]>) -> ParsedCall {
    let json = json.as_ref();
    decode_request("m", "7", &Bytes::copy_from_slice(json), json.len(), RequestLimits::default())
}

pub fn accepted(json: impl AsRef<[u8]>) -> ParsedCall {
    let call = decode(json);
    assert_eq!(call.defect, None);
    call
}

pub fn refused(json: impl AsRef<[u8]>) -> String {
    let failure = decode(json).defect.expect("this must be refused");
    assert_eq!(failure.code, Code::INVALID_ARGUMENT, "{}", failure.message);
    failure.message
}

pub fn assert_refused(json: impl AsRef<[u8]>, parts: &[&str]) {
    let message = refused(json);
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

pub fn with_input(datatype: &str, shape: &str, data: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"X","datatype":"{datatype}","shape":{shape},"data":{data}}}]}}"#)
}

/// The bytes of one input.
pub fn bytes_of(datatype: &str, shape: &str, data: &str) -> Vec<u8> {
    accepted(with_input(datatype, shape, data)).inputs[0].data.to_vec()
}

pub fn with_member(member: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"X","datatype":"INT8","shape":[1],"data":[1]}}],{member}}}"#)
}
