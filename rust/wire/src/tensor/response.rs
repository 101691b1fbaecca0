//! An answer over HTTP: a JSON header with the JSON outputs, and the binary outputs behind it.

use bytes::Bytes;
use half::{bf16, f16};

use super::check;
use super::json_write;
use crate::call::ParsedCall;
use crate::datatype::DataType;
use crate::reply::{Failure, OutputTensor, Response};
use crate::status::Code;

/// The pieces of a body, to be written one after the other.
#[derive(Debug)]
pub struct EncodedResponse {
    pub json: Bytes,
    /// The binary outputs in order, uncopied; empty ones are left out.
    pub tail: Vec<Bytes>,
}

impl EncodedResponse {
    /// Whether bytes follow the JSON: then the answer needs `Inference-Header-Content-Length` and is an octet stream.
    pub fn is_binary(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Bytes of the whole body.
    pub fn total_bytes(&self) -> usize {
        self.json.len() + self.tail.iter().map(Bytes::len).sum::<usize>()
    }
}

/// Encode one response to `request`. Fails with INTERNAL when an output's bytes do not match its shape (of binary BYTES
/// outputs the framing is not read).
pub fn encode_response(request: &ParsedCall, response: &Response) -> Result<EncodedResponse, Failure> {
    let mut json = Vec::with_capacity(expected_size(request, response));
    let mut tail = Vec::new();
    head(&mut json, request, response);
    json.extend_from_slice(b",\"outputs\":[");
    for (index, output) in response.outputs.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        check_output(response, output)?;
        describe(&mut json, output);
        if output.is_elsewhere {
            json.push(b'}');
        } else if request.wants_binary(&output.name) {
            binary_size(&mut json, output);
            tail.extend((!output.data.is_empty()).then(|| output.data.clone()));
        } else {
            json.extend_from_slice(b",\"data\":[");
            data(&mut json, output).map_err(|what| broken_output(response, output, &what))?;
            json.extend_from_slice(b"]}");
        }
    }
    json.extend_from_slice(b"]}");
    Ok(EncodedResponse { json: json.into(), tail })
}

/// From the opening brace to before `outputs`.
fn head(json: &mut Vec<u8>, request: &ParsedCall, response: &Response) {
    json.push(b'{');
    if !request.id.is_empty() {
        json.extend_from_slice(b"\"id\":");
        json_write::string(json, request.id.as_bytes());
        json.push(b',');
    }
    json.extend_from_slice(b"\"model_name\":");
    json_write::string(json, response.model_name.as_bytes());
    json.extend_from_slice(b",\"model_version\":");
    json_write::string(json, response.model_version.as_bytes());
    if !response.parameters.is_empty() {
        json.extend_from_slice(b",\"parameters\":");
        json_write::parameters(json, &response.parameters);
    }
}

/// An output's name, datatype and shape, its object left open.
fn describe(json: &mut Vec<u8>, output: &OutputTensor) {
    json.extend_from_slice(b"{\"name\":");
    json_write::string(json, output.name.as_bytes());
    json.extend_from_slice(b",\"datatype\":\"");
    json.extend_from_slice(output.datatype.name().as_bytes());
    json.extend_from_slice(b"\",\"shape\":[");
    separated(json, output.shape.iter(), |json, &dim| json_write::integer(json, dim));
    json.push(b']');
}

fn binary_size(json: &mut Vec<u8>, output: &OutputTensor) {
    json.extend_from_slice(b",\"parameters\":{\"binary_data_size\":");
    json_write::integer(json, output.data.len());
    json.extend_from_slice(b"}}");
}

#[inline]
fn separated<T>(json: &mut Vec<u8>, items: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write(json, item);
    }
}

/// INTERNAL when the output's bytes are not as many as its shape asks for.
pub fn check_output(response: &Response, output: &OutputTensor) -> Result<(), Failure> {
    check_size(output).map_err(|what| broken_output(response, output, &what))
}

/// The bytes are as many as the shape asks for; of BYTES only the bytes themselves can tell, and none if it is elsewhere.
fn check_size(output: &OutputTensor) -> Result<(), String> {
    let (len, size) = (output.data.len(), output.datatype.item_size());
    if !output.is_elsewhere && size > 0 && (!len.is_multiple_of(size) || (len / size) as u64 != count(output)) {
        return Err(format!("it has {len} bytes"));
    }
    Ok(())
}

/// The elements of an output, or what is wrong with its strings.
fn data(json: &mut Vec<u8>, output: &OutputTensor) -> Result<(), String> {
    let bytes = &output.data[..];
    match output.datatype {
        DataType::Bool => items(json, bytes, |json, [byte]: [u8; 1]| json_write::boolean(json, byte != 0)),
        DataType::Uint8 => items(json, bytes, |json, item| json_write::integer(json, u8::from_le_bytes(item))),
        DataType::Uint16 => items(json, bytes, |json, item| json_write::integer(json, u16::from_le_bytes(item))),
        DataType::Uint32 => items(json, bytes, |json, item| json_write::integer(json, u32::from_le_bytes(item))),
        DataType::Uint64 => items(json, bytes, |json, item| json_write::integer(json, u64::from_le_bytes(item))),
        DataType::Int8 => items(json, bytes, |json, item| json_write::integer(json, i8::from_le_bytes(item))),
        DataType::Int16 => items(json, bytes, |json, item| json_write::integer(json, i16::from_le_bytes(item))),
        DataType::Int32 => items(json, bytes, |json, item| json_write::integer(json, i32::from_le_bytes(item))),
        DataType::Int64 => items(json, bytes, |json, item| json_write::integer(json, i64::from_le_bytes(item))),
        DataType::Fp16 => items(json, bytes, |json, item| json_write::float(json, f16::from_le_bytes(item).to_f64())),
        DataType::Bf16 => items(json, bytes, |json, item| json_write::float(json, bf16::from_le_bytes(item).to_f64())),
        DataType::Fp32 => items(json, bytes, |json, item| json_write::float(json, f32::from_le_bytes(item).into())),
        DataType::Fp64 => items(json, bytes, |json, item| json_write::float(json, f64::from_le_bytes(item))),
        DataType::Bytes => return strings(json, output),
    }
    Ok(())
}

#[inline]
fn items<const N: usize>(json: &mut Vec<u8>, bytes: &[u8], write: impl Fn(&mut Vec<u8>, [u8; N])) {
    separated(json, bytes.as_chunks::<N>().0.iter(), |json, &item| write(json, item));
}

fn strings(json: &mut Vec<u8>, output: &OutputTensor) -> Result<(), String> {
    check::bytes_framing("", &output.name, count(output), &output.data).map_err(|failure| failure.message)?;
    let mut rest = &output.data[..];
    let elements = std::iter::from_fn(|| {
        let (prefix, behind) = rest.split_first_chunk::<4>()?;
        let (element, behind) = behind.split_at(u32::from_le_bytes(*prefix) as usize);
        rest = behind;
        Some(element)
    });
    separated(json, elements, json_write::string);
    Ok(())
}

/// Elements by the shape; a shape that no tensor can have has `u64::MAX`.
fn count(output: &OutputTensor) -> u64 {
    check::element_count("", &output.name, &output.shape).unwrap_or(u64::MAX)
}

#[cold]
fn broken_output(response: &Response, output: &OutputTensor, what: &str) -> Failure {
    let (model, name, datatype) = (&response.model_name, &output.name, output.datatype.name());
    let shape = check::shape_text(&output.shape);
    let message = format!("output '{name}' of model '{model}' does not match its shape {shape} of {datatype}: {what}");
    Failure::new(Code::INTERNAL, message)
}

/// Room for most answers, so that the buffer seldom moves.
fn expected_size(request: &ParsedCall, response: &Response) -> usize {
    let outputs =
        response.outputs.iter().map(|output| if request.wants_binary(&output.name) { 0 } else { text_size(output) });
    256 + 160 * response.outputs.len() + outputs.sum::<usize>()
}

fn text_size(output: &OutputTensor) -> usize {
    let bytes = output.data.len();
    match output.datatype {
        DataType::Fp32 => bytes / 4 * 20,
        DataType::Fp64 => bytes / 8 * 20,
        DataType::Fp16 | DataType::Bf16 => bytes / 2 * 16,
        DataType::Bool => bytes * 6,
        DataType::Uint64 | DataType::Int64 => bytes,
        DataType::Bytes => bytes + bytes / 8,
        _ => bytes * 3,
    }
}
