//! A model's response to the bytes of `ModelInferResponse` or `ModelStreamInferResponse`, without a message in between.
//!
//! The message is a list of chunks: a tensor that is large, or lent by its owner, stays where it is and becomes a chunk
//! of its own. The first chunk begins with the prefix of gRPC's framing.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_key, encode_varint, encoded_len_varint, key_len, WireType};

use super::frame::PREFIX_BYTES;
use crate::call::{Parameter, Parameters};
use crate::http::compress::Coding;
use crate::reply::{Failure, OutputTensor, Response};
use crate::status::Code;
use crate::tensor;

/// Tensors up to this size are copied behind the fields before them: cheaper than a DATA frame of their own.
const MAX_COPIED_BYTES: usize = 8 << 10;

/// Parameter of each response of a stream: whether it is the last one of its request.
const FINAL_PARAMETER: &str = "triton_final_response";

/// One framed message.
#[derive(Debug, Default)]
pub struct Framed {
    pub chunks: VecDeque<Bytes>,
    /// How it is compressed; the answer's `grpc-encoding` must say the same.
    pub coding: Option<Coding>,
}

impl Framed {
    /// A message that is there as bytes already.
    pub fn of_message(message: &Bytes) -> Result<Self, Failure> {
        let mut writer = Writer::new(message.len(), message.len().min(MAX_COPIED_BYTES))?;
        writer.put_tensor(message);
        Ok(writer.finish())
    }
}

/// Answer of `ModelInfer`. INTERNAL when an output's bytes do not match its shape.
pub fn unary(response: &Response, id: &str) -> Result<Framed, Failure> {
    check_outputs(response)?;
    let sizes = Sizes::of(response, id, None);
    let mut writer = Writer::new(sizes.message, sizes.copied)?;
    put_response(&mut writer, response, id, None, &sizes);
    Ok(writer.finish())
}

/// Answer of `ModelStreamInfer` to one of its requests.
pub fn streamed(response: &Response, id: &str) -> Result<Framed, Failure> {
    check_outputs(response)?;
    let flag = Some(response.is_final);
    let sizes = Sizes::of(response, id, flag);
    let mut writer = Writer::new(delimited_len(2, sizes.message), sizes.copied)?;
    put_delimited_head(&mut writer.head, 2, sizes.message);
    put_response(&mut writer, response, id, flag, &sizes);
    Ok(writer.finish())
}

fn check_outputs(response: &Response) -> Result<(), Failure> {
    response.outputs.iter().try_for_each(|output| tensor::check_output(response, output))
}

/// The error of one request of a stream: the stream goes on, and the id tells whose error it is. The error of an inference
/// also says whose model failed, and whether more follows.
pub fn streamed_failure(failure: &Failure, model: &str, id: &str) -> Framed {
    let whose = Response { model_name: model.to_owned(), ..Response::default() };
    let (whose, flag) =
        if failure.of_inference { (whose, Some(failure.is_final)) } else { (Response::default(), None) };
    let sizes = Sizes::of(&whose, id, flag);
    let length = string_len(1, &failure.message) + delimited_len(2, sizes.message);
    // Only a message of 4 GiB could fail here.
    let mut writer = Writer::new(length, length).unwrap_or_default();
    put_string(&mut writer.head, 1, &failure.message);
    put_delimited_head(&mut writer.head, 2, sizes.message);
    put_response(&mut writer, &whose, id, flag, &sizes);
    writer.finish()
}

/// Lengths that protobuf wants to know before it is written.
struct Sizes {
    /// All of `ModelInferResponse`.
    message: usize,
    /// The part of it that is not in chunks of its own.
    copied: usize,
    /// The bodies of `outputs`.
    outputs: Vec<usize>,
}

impl Sizes {
    fn of(response: &Response, id: &str, flag: Option<bool>) -> Self {
        let mut message = string_len(1, &response.model_name) + string_len(2, &response.model_version);
        message += string_len(3, id) + parameters_len(4, &response.parameters);
        if flag.is_some() {
            message += delimited_len(4, flag_entry_len());
        }
        let outputs: Vec<usize> = response.outputs.iter().map(output_len).collect();
        message += outputs.iter().map(|&length| delimited_len(5, length)).sum::<usize>();
        let mut apart = 0;
        for output in &response.outputs {
            message += delimited_len(6, output.data.len());
            if output.data.len() > MAX_COPIED_BYTES {
                apart += output.data.len();
            }
        }
        Self { message, copied: message - apart, outputs }
    }
}

fn put_response(writer: &mut Writer, response: &Response, id: &str, flag: Option<bool>, sizes: &Sizes) {
    let head = &mut writer.head;
    put_string(head, 1, &response.model_name);
    put_string(head, 2, &response.model_version);
    put_string(head, 3, id);
    put_parameters(head, 4, &response.parameters);
    if let Some(flag) = flag {
        put_flag_entry(head, flag);
    }
    for (output, &length) in response.outputs.iter().zip(&sizes.outputs) {
        put_output(head, output, length);
    }
    for output in &response.outputs {
        put_delimited_head(&mut writer.head, 6, output.data.len());
        writer.put_tensor(&output.data);
    }
}

/// Collects chunks; what is small is appended to the chunk being written.
#[derive(Default)]
struct Writer {
    head: BytesMut,
    chunks: VecDeque<Bytes>,
}

impl Writer {
    fn new(message_bytes: usize, copied_bytes: usize) -> Result<Self, Failure> {
        let length = u32::try_from(message_bytes).map_err(|_| too_large(message_bytes))?;
        // A few bytes more for what surrounds the message in a stream.
        let mut head = BytesMut::with_capacity(PREFIX_BYTES + copied_bytes + 16);
        head.put_u8(0);
        head.put_u32(length);
        Ok(Self { head, chunks: VecDeque::new() })
    }

    fn put_tensor(&mut self, data: &Bytes) {
        if data.len() <= MAX_COPIED_BYTES {
            self.head.extend_from_slice(data);
            return;
        }
        self.chunks.push_back(self.head.split().freeze());
        self.chunks.push_back(data.clone());
    }

    fn finish(mut self) -> Framed {
        if !self.head.is_empty() {
            self.chunks.push_back(self.head.freeze());
        }
        Framed { chunks: self.chunks, coding: None }
    }
}

fn too_large(bytes: usize) -> Failure {
    Failure::new(
        Code::RESOURCE_EXHAUSTED,
        format!("the answer has {bytes} bytes, more than the {} that one gRPC message can carry", u32::MAX),
    )
}

fn output_len(output: &OutputTensor) -> usize {
    let shape = shape_len(&output.shape);
    let shape = if output.shape.is_empty() { 0 } else { delimited_len(3, shape) };
    string_len(1, &output.name) + string_len(2, output.datatype.name()) + shape
}

fn put_output(head: &mut BytesMut, output: &OutputTensor, length: usize) {
    put_delimited_head(head, 5, length);
    put_string(head, 1, &output.name);
    put_string(head, 2, output.datatype.name());
    if !output.shape.is_empty() {
        put_delimited_head(head, 3, shape_len(&output.shape));
        for &dim in &output.shape {
            encode_varint(dim.cast_unsigned(), head);
        }
    }
}

fn shape_len(shape: &[i64]) -> usize {
    shape.iter().map(|dim| encoded_len_varint(dim.cast_unsigned())).sum()
}

fn delimited_len(tag: u32, length: usize) -> usize {
    key_len(tag) + encoded_len_varint(length as u64) + length
}

fn put_delimited_head(head: &mut BytesMut, tag: u32, length: usize) {
    encode_key(tag, WireType::LengthDelimited, head);
    encode_varint(length as u64, head);
}

/// proto3 leaves out empty strings.
fn string_len(tag: u32, text: &str) -> usize {
    if text.is_empty() {
        0
    } else {
        delimited_len(tag, text.len())
    }
}

fn put_string(head: &mut BytesMut, tag: u32, text: &str) {
    if !text.is_empty() {
        put_delimited_head(head, tag, text.len());
        head.extend_from_slice(text.as_bytes());
    }
}

fn parameters_len(tag: u32, parameters: &Parameters) -> usize {
    parameters.iter().map(|(key, value)| delimited_len(tag, entry_len(key, value))).sum()
}

fn put_parameters(head: &mut BytesMut, tag: u32, parameters: &Parameters) {
    for (key, value) in parameters {
        put_delimited_head(head, tag, entry_len(key, value));
        put_entry(head, key, value);
    }
}

fn entry_len(key: &str, value: &Parameter) -> usize {
    string_len(1, key) + delimited_len(2, value_len(value))
}

fn put_entry(head: &mut BytesMut, key: &str, value: &Parameter) {
    put_string(head, 1, key);
    put_delimited_head(head, 2, value_len(value));
    put_value(head, value);
}

/// Members of a oneof are written even when they are zero or empty.
fn value_len(value: &Parameter) -> usize {
    match value {
        Parameter::Bool(_) => 2,
        Parameter::Int(number) => 1 + encoded_len_varint(number.cast_unsigned()),
        Parameter::String(text) => delimited_len(3, text.len()),
        Parameter::Double(_) => 9,
        Parameter::Uint(number) => 1 + encoded_len_varint(*number),
    }
}

fn put_value(head: &mut BytesMut, value: &Parameter) {
    match value {
        Parameter::Bool(flag) => {
            encode_key(1, WireType::Varint, head);
            head.put_u8(u8::from(*flag));
        }
        Parameter::Int(number) => {
            encode_key(2, WireType::Varint, head);
            encode_varint(number.cast_unsigned(), head);
        }
        Parameter::String(text) => {
            put_delimited_head(head, 3, text.len());
            head.extend_from_slice(text.as_bytes());
        }
        Parameter::Double(number) => {
            encode_key(4, WireType::SixtyFourBit, head);
            head.put_f64_le(*number);
        }
        Parameter::Uint(number) => {
            encode_key(5, WireType::Varint, head);
            encode_varint(*number, head);
        }
    }
}

fn flag_entry_len() -> usize {
    entry_len(FINAL_PARAMETER, &Parameter::Bool(true))
}

fn put_flag_entry(head: &mut BytesMut, flag: bool) {
    put_delimited_head(head, 4, flag_entry_len());
    put_entry(head, FINAL_PARAMETER, &Parameter::Bool(flag));
}
