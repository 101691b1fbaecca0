//! What is decoded, encoded and decoded again is the same tensor.
#![no_main]

use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::options::RequestLimits;
use charonia_wire::reply::{OutputTensor, Response};
use charonia_wire::tensor::{decode_request, encode_response};
use libfuzzer_sys::fuzz_target;

const HEAD: &[u8] = br#"{"model_name":"","model_version":"","outputs":"#;

fuzz_target!(|body: &[u8]| {
    let call = decode_request("m", "1", &Bytes::copy_from_slice(body), body.len(), RequestLimits::default());
    if call.defect.is_some() || call.inputs.iter().any(|input| !input.parameters.is_empty()) {
        return;
    }
    let outputs = call.inputs.iter().map(|input| OutputTensor {
        name: input.name.clone(),
        datatype: input.datatype,
        shape: input.shape.clone(),
        data: input.data.clone(),
    });
    let response = Response { outputs: outputs.collect(), ..Response::default() };
    let json = encode_response(&ParsedCall::default(), &response).expect("whole tensors").json;
    let outputs = json.strip_prefix(HEAD).expect("a nameless model");
    let again = [b"{\"inputs\":", outputs].concat();
    let length = again.len();
    let again = decode_request("m", "1", &again.into(), length, RequestLimits::default());
    assert_eq!(again.defect, None);
    assert_eq!(again.inputs, call.inputs);
});
