//! `ModelInferRequest` to a `ParsedCall`: raw or typed tensors, parameters, requested outputs.
//!
//! What is wrong becomes the call's defect, so that Python can look the model up first.

use bytes::Bytes;
use prost::Message;

use super::frame::{over_budget, Received};
use super::messages::{InferInputTensor, InferRequestedOutput, ModelInferRequest, ParameterChoice, ParameterEntry};
use super::{contents, weight};
use crate::budget::Permit;
use crate::call::{InputTensor, Parameter, Parameters, ParsedCall, RequestedOutput};
use crate::datatype::DataType;
use crate::http::compress::{offload, Coding, OFFLOAD_BYTES};
use crate::options::RequestLimits;
use crate::reply::Failure;
use crate::tensor::check::{self, invalid};
use crate::tensor::known::Known;
use crate::tensor::{self, aligned};
use crate::wire::Wire;

/// A received message as a call. Fails only when it is no `ModelInferRequest` at all.
pub async fn received(
    received: Received,
    coding: Option<Coding>,
    wire: &Wire,
) -> Result<(ParsedCall, Permit), Failure> {
    if received.is_compressed || received.message.len() > OFFLOAD_BYTES {
        return Box::pin(beside(received, coding, wire)).await;
    }
    Ok((decode(received.message, wire.options.request)?, received.permit))
}

/// The same for much work, which is not done on an I/O thread.
async fn beside(received: Received, coding: Option<Coding>, wire: &Wire) -> Result<(ParsedCall, Permit), Failure> {
    let (message, mut permit) = received.inflated(coding, wire).await?;
    if !permit.grow(weight::of_request(&message)).await {
        return Err(over_budget());
    }
    let limits = wire.options.request;
    let parsed = offload(message.len(), move || decode(message, limits)).await?;
    Ok((parsed, permit))
}

/// A plain message as a call. `INVALID_ARGUMENT` when it is no `ModelInferRequest` at all.
pub fn decode(message: Bytes, limits: RequestLimits) -> Result<ParsedCall, Failure> {
    let message = ModelInferRequest::decode(message);
    let message = message.map_err(|error| invalid(format!("the message is not a valid ModelInferRequest: {error}")))?;
    Ok(parse(message, limits))
}

fn parse(message: ModelInferRequest, limits: RequestLimits) -> ParsedCall {
    let ModelInferRequest { model_name, model_version, id, parameters, inputs, outputs, raw_input_contents } = message;
    let mut parsed = ParsedCall { model_name, model_version, id, ..ParsedCall::default() };
    parsed.defect = check_counts(&inputs, &outputs, &parameters, limits)
        .and_then(|()| fill(&mut parsed, parameters, inputs, outputs, raw_input_contents))
        .err();
    parsed
}

/// Looking for duplicates would take the square of them.
fn check_counts(
    inputs: &[InferInputTensor],
    outputs: &[InferRequestedOutput],
    parameters: &[ParameterEntry],
    limits: RequestLimits,
) -> Result<(), Failure> {
    for (field, count) in [("inputs", inputs.len()), ("outputs", outputs.len())] {
        if count > limits.max_tensors {
            return Err(invalid(tensor::too_many_tensors(field, limits.max_tensors)));
        }
    }
    let inner = inputs.iter().map(|input| &input.parameters).chain(outputs.iter().map(|output| &output.parameters));
    let most = inner.map(Vec::len).chain([parameters.len()]).max().unwrap_or(0);
    if most > limits.max_parameters {
        return Err(invalid(tensor::parameters::too_many(limits.max_parameters)));
    }
    Ok(())
}

fn fill(
    parsed: &mut ParsedCall,
    parameters: Vec<ParameterEntry>,
    inputs: Vec<InferInputTensor>,
    outputs: Vec<InferRequestedOutput>,
    raw: Vec<Bytes>,
) -> Result<(), Failure> {
    parsed.parameters = read_parameters(parameters)?;
    parsed.outputs = outputs.into_iter().map(read_output).collect::<Result<_, _>>()?;
    parsed.inputs.reserve_exact(inputs.len());
    let model = &parsed.model_name;
    let mut raw = RawContents { given: raw.len(), entries: raw.into_iter() };
    for input in inputs {
        parsed.inputs.push(read_input(model, input, &mut raw)?);
    }
    raw.check_all_used(model)
}

/// `raw_input_contents`: one entry for each input that is not in shared memory, in the order of the inputs.
struct RawContents {
    given: usize,
    entries: std::vec::IntoIter<Bytes>,
}

impl RawContents {
    fn check_all_used(&self, model: &str) -> Result<(), Failure> {
        match self.entries.len() {
            0 => Ok(()),
            surplus => Err(invalid(format!(
                "request for model '{model}' has {} entries in raw_input_contents, expected {}: one for each input",
                self.given,
                self.given - surplus
            ))),
        }
    }
}

fn read_input(model: &str, input: InferInputTensor, raw: &mut RawContents) -> Result<InputTensor, Failure> {
    let InferInputTensor { name, datatype, shape, parameters, contents } = input;
    let parameters = read_parameters(parameters)?;
    let shared = has(&parameters, "shared_memory_region");
    if !shared {
        check_no_place(&name, &parameters)?;
    }
    if let (Some(_), true) = (&contents, shared) {
        return Err(invalid(format!(
            "unexpected 'content' provided when using shared memory for input tensor '{name}' for model '{model}'"
        )));
    }
    if let (Some(_), true) = (&contents, raw.given > 0) {
        return Err(invalid(format!(
            "contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
        )));
    }
    let kind = DataType::from_name(&datatype).ok_or_else(|| unknown_datatype(model, &name, &datatype))?;
    let data = match contents {
        _ if shared => Bytes::new(),
        // No element at all is right where a dim is 0; otherwise the size check says so.
        Some(contents) => contents::to_bytes(model, &name, kind, *contents)?,
        None => aligned::ensure(raw.entries.next().ok_or_else(|| no_data(model, &name))?, kind.item_size()),
    };
    let tensor = InputTensor { name, datatype: kind, shape, data, parameters };
    if shared {
        check::byte_size(model, &tensor.name, kind, &tensor.shape)?;
    } else {
        check::input(model, &tensor)?;
    }
    Ok(tensor)
}

fn has(parameters: &Parameters, key: &str) -> bool {
    parameters.iter().any(|(known, _)| known == key)
}

/// A place in shared memory makes no sense without the region that it is in.
fn check_no_place(tensor: &str, parameters: &Parameters) -> Result<(), Failure> {
    match ["shared_memory_offset", "shared_memory_byte_size"].into_iter().find(|key| has(parameters, key)) {
        None => Ok(()),
        Some(key) => Err(invalid(format!(
            "'{key}' can not be specified without 'shared_memory_region' parameter for tensor '{tensor}'"
        ))),
    }
}

fn read_output(output: InferRequestedOutput) -> Result<RequestedOutput, Failure> {
    let InferRequestedOutput { name, parameters } = output;
    let mut parameters = read_parameters(parameters)?;
    let mut classification = 0;
    if let Some(at) = parameters.iter().position(|(key, _)| key == "classification") {
        classification = read_classification(&name, &parameters.swap_remove(at).1)?;
    }
    if !has(&parameters, "shared_memory_region") {
        check_no_place(&name, &parameters)?;
    }
    Ok(RequestedOutput { name, classification, binary: false, parameters })
}

fn read_classification(output: &str, value: &Parameter) -> Result<u32, Failure> {
    let Parameter::Int(count) = *value else {
        return Err(invalid(format!(
            "invalid value type for 'classification' parameter of output '{output}', expected int64_param, got {}",
            choice_name(value)
        )));
    };
    if count < 0 {
        return Err(invalid(format!(
            "invalid value for 'classification' parameter of output '{output}', expected >= 0, got {count}"
        )));
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Maps allow a key once: of equal keys the last one counts.
fn read_parameters(entries: Vec<ParameterEntry>) -> Result<Parameters, Failure> {
    let (mut parameters, mut known) = (Parameters::with_capacity(entries.len()), Known::default());
    for ParameterEntry { key, value } in entries {
        let value = match value.and_then(|value| value.choice) {
            Some(ParameterChoice::Bool(value)) => Parameter::Bool(value),
            Some(ParameterChoice::Int64(value)) => Parameter::Int(value),
            Some(ParameterChoice::String(value)) => Parameter::String(value),
            Some(ParameterChoice::Double(value)) => Parameter::Double(value),
            Some(ParameterChoice::Uint64(value)) => Parameter::Uint(value),
            None => return Err(no_value(&key)),
        };
        match known.place(&parameters, &key) {
            Some(place) => parameters[place].1 = value,
            None => parameters.push((key, value)),
        }
    }
    Ok(parameters)
}

fn choice_name(value: &Parameter) -> &'static str {
    match value {
        Parameter::Bool(_) => "bool_param",
        Parameter::Int(_) => "int64_param",
        Parameter::Uint(_) => "uint64_param",
        Parameter::Double(_) => "double_param",
        Parameter::String(_) => "string_param",
    }
}

#[cold]
fn no_value(key: &str) -> Failure {
    invalid(format!(
        "invalid value type for '{key}' parameter, expected one of bool_param, int64_param, string_param, double_param or \
         uint64_param, got none"
    ))
}

#[cold]
fn no_data(model: &str, input: &str) -> Failure {
    invalid(format!("unable to find data for input tensor '{input}' for model '{model}' in request."))
}

#[cold]
fn unknown_datatype(model: &str, input: &str, datatype: &str) -> Failure {
    let known: Vec<_> = DataType::ALL.iter().map(|datatype| datatype.name()).collect();
    invalid(format!(
        "inference input '{input}' data-type is '{datatype}' in the request for model '{model}', expected one of {}",
        known.join(", ")
    ))
}
