//! The bytes of a `ModelInferRequest`. The first character is '1' for tight limits.

use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::grpc::decode::decode;
use charonia_wire::grpc::messages::{InferInputTensor, ModelInferRequest};
use charonia_wire::grpc::weight;
use charonia_wire::options::RequestLimits;
use prost::Message;

use super::{accepted, measure};

/// Vectors that grow have room for twice what they hold, and hold both places while they move; our own records follow.
const GROWTH: usize = 4;

pub fn run(input: &[u8]) {
    let Some((limits, message)) = input.split_first() else { return };
    let limits = if limits & 1 == 1 { accepted::TIGHT } else { RequestLimits::default() };
    let bytes = Bytes::copy_from_slice(message);
    // What the budget counts for a message is what it may take.
    let weight = weight::of_request(message);
    let decoded = measure::bounded(GROWTH * (message.len() + weight), || decode(bytes, limits));
    let call = match decoded {
        Err(failure) => return accepted::refusal(&failure, message.len()),
        Ok(call) => call,
    };
    if let Some(failure) = &call.defect {
        return accepted::refusal(failure, message.len());
    }
    accepted::call(&call, limits);
    survives(&call);
}

/// Asked again with raw contents it is the same call.
fn survives(call: &ParsedCall) {
    if call.inputs.is_empty() || call.inputs.iter().any(|input| !input.parameters.is_empty()) {
        return;
    }
    let input = |input: &charonia_wire::call::InputTensor| InferInputTensor {
        name: input.name.clone(),
        datatype: input.datatype.name().to_owned(),
        shape: input.shape.clone(),
        ..InferInputTensor::default()
    };
    let message = ModelInferRequest {
        model_name: call.model_name.clone(),
        model_version: call.model_version.clone(),
        id: call.id.clone(),
        inputs: call.inputs.iter().map(input).collect(),
        raw_input_contents: call.inputs.iter().map(|input| input.data.clone()).collect(),
        ..ModelInferRequest::default()
    };
    let again = decode(message.encode_to_vec().into(), RequestLimits::default()).expect("a message");
    assert_eq!(again.defect, None);
    assert_eq!(again.inputs, call.inputs);
    assert_eq!((&again.model_name, &again.model_version, &again.id), (&call.model_name, &call.model_version, &call.id));
}
