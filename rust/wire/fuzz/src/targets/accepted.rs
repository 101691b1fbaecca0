//! What every call fulfils that a decoder hands on.

use charonia_wire::call::{InputTensor, Parameters, ParsedCall};
use charonia_wire::options::RequestLimits;
use charonia_wire::reply::Failure;
use charonia_wire::status::Code;
use charonia_wire::tensor::check;

/// Limits that inputs of a few hundred bytes reach.
pub const TIGHT: RequestLimits = RequestLimits { max_tensors: 4, max_parameters: 3, max_data_bytes: 64 };

/// The small part of a message that is ours, and what it quotes of the request at most.
const WORDS_BYTES: usize = 1000;
const QUOTES: usize = 8;

/// A refusal blames the client, and is not much longer than what it refuses.
pub fn refusal(failure: &Failure, request_bytes: usize) {
    assert_eq!(failure.code, Code::INVALID_ARGUMENT, "{}", failure.message);
    assert!(!failure.message.is_empty());
    assert!(failure.message.len() <= QUOTES * request_bytes + WORDS_BYTES, "{} bytes", failure.message.len());
    assert!(!failure.of_inference);
}

/// Names are within the limits and each input is whole.
pub fn call(call: &ParsedCall, limits: RequestLimits) {
    assert!(call.inputs.len() <= limits.max_tensors && call.outputs.len() <= limits.max_tensors);
    parameters(&call.parameters, limits);
    for output in &call.outputs {
        parameters(&output.parameters, limits);
    }
    for tensor in &call.inputs {
        parameters(&tensor.parameters, limits);
        input(tensor);
    }
}

fn parameters(parameters: &Parameters, limits: RequestLimits) {
    assert!(parameters.len() <= limits.max_parameters);
    let mut keys: Vec<&str> = parameters.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "a key is there twice");
}

/// Its bytes are those of its shape and lie where its items may be read, unless they are in shared memory.
fn input(tensor: &InputTensor) {
    if tensor.parameters.iter().any(|(key, _)| key == "shared_memory_region") {
        assert!(tensor.data.is_empty());
        return;
    }
    check::input("m", tensor).expect("what was accepted is whole");
    let item_size = tensor.datatype.item_size().max(1);
    assert!(tensor.data.is_empty() || tensor.data.as_ptr().addr().is_multiple_of(item_size));
}
