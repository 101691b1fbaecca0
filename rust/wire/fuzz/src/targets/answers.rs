//! Responses in every form, read again: what a client gets is what the model gave.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use charonia_wire::call::{Parameter, ParsedCall, RequestedOutput};
use charonia_wire::datatype::DataType;
use charonia_wire::grpc::encode::{self, Framed};
use charonia_wire::grpc::messages::{InferInputTensor, InferParameter, ParameterChoice, ParameterEntry};
use charonia_wire::options::RequestLimits;
use charonia_wire::reply::{OutputTensor, Response};
use charonia_wire::status::Code;
use charonia_wire::tensor::{decode_request, encode_response};
use prost::Message;

use super::tensors::Made;

#[derive(Clone, PartialEq, Message)]
struct InferResponse {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(string, tag = "2")]
    model_version: String,
    #[prost(string, tag = "3")]
    id: String,
    #[prost(message, repeated, tag = "4")]
    parameters: Vec<ParameterEntry>,
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<InferInputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    raw_output_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct StreamResponse {
    #[prost(string, tag = "1")]
    error_message: String,
    #[prost(message, optional, tag = "2")]
    infer_response: Option<InferResponse>,
}

pub fn run(input: &[u8]) {
    let _ = check(&mut Unstructured::new(input));
}

fn check(from: &mut Unstructured<'_>) -> Result<()> {
    let made = Made::some(from)?;
    let id: String = from.arbitrary()?;
    let binary: Vec<bool> = made.iter().map(|_| from.arbitrary()).collect::<Result<_>>()?;
    let parameters = parameters(from)?;
    let response = Response { parameters, outputs: made.iter().map(output).collect(), ..Response::default() };
    over_http(&made, &binary, &response);
    head_over_http(&id, &response);
    over_grpc(&made, &id, &response);
    Ok(())
}

fn parameters(from: &mut Unstructured<'_>) -> Result<Vec<(String, Parameter)>> {
    let value = match from.int_in_range(0..=4)? {
        0 => Parameter::Bool(from.arbitrary()?),
        1 => Parameter::Int(from.arbitrary()?),
        2 => Parameter::Uint(from.arbitrary()?),
        // A NaN equals nothing.
        3 => Parameter::Double(Some(from.arbitrary()?).filter(|value: &f64| !value.is_nan()).unwrap_or(0.0)),
        _ => Parameter::String(from.arbitrary()?),
    };
    Ok(vec![(from.arbitrary()?, value)])
}

fn output(tensor: &Made) -> OutputTensor {
    let Made { name, datatype, shape, data } = tensor;
    let data = data.clone().into();
    OutputTensor { name: name.clone(), datatype: *datatype, shape: shape.clone(), data, is_elsewhere: false }
}

const HEAD: &[u8] = br#"{"model_name":"","model_version":"","outputs":"#;

fn over_http(made: &[Made], binary: &[bool], response: &Response) {
    // A client that asks for one name twice gets both outputs in the form of the first.
    let wanted = made.iter().zip(binary).map(|(tensor, &binary)| RequestedOutput {
        name: tensor.name.clone(),
        binary,
        ..RequestedOutput::default()
    });
    let request = ParsedCall { outputs: wanted.collect(), ..ParsedCall::default() };
    let response = Response { parameters: Vec::new(), ..response.clone() };
    let encoded = match encode_response(&request, &response) {
        Ok(encoded) => encoded,
        Err(failure) => {
            assert!(made.iter().any(|tensor| !tensor.is_whole()), "{}", failure.message);
            return assert_eq!(failure.code, Code::INTERNAL);
        }
    };
    let outputs = encoded.json.strip_prefix(HEAD).expect("a nameless model");
    let json = [b"{\"inputs\":", outputs].concat();
    let json_length = json.len();
    let body = [json, encoded.tail.concat()].concat();
    let again = decode_request("m", "1", &body.into(), json_length, RequestLimits::default());
    if made.iter().all(Made::is_whole) {
        assert_eq!(again.defect, None);
        assert_eq!(again.inputs.len(), made.len());
    }
    for (input, tensor) in again.inputs.iter().zip(made).filter(|_| again.defect.is_none()) {
        assert_eq!((&input.name, input.datatype, &input.shape), (&tensor.name, tensor.datatype, &tensor.shape));
        if request.wants_binary(&tensor.name) {
            assert_eq!(&input.data[..], &tensor.data[..]);
        } else {
            assert_eq!(plain(tensor.datatype, &input.data), plain(tensor.datatype, &tensor.data));
        }
    }
}

/// What JSON can carry: a NaN is a NaN, and a BOOL is 0 or 1.
fn plain(datatype: DataType, data: &[u8]) -> Vec<u8> {
    // Exponent and fraction of the largest infinity, without the sign.
    let infinity: u64 = match datatype {
        DataType::Bool => return data.iter().map(|&byte| u8::from(byte != 0)).collect(),
        DataType::Fp16 => 0x7c00,
        DataType::Bf16 => 0x7f80,
        DataType::Fp32 => 0x7f80_0000,
        DataType::Fp64 => 0x7ff0_0000_0000_0000,
        _ => return data.to_vec(),
    };
    let size = datatype.item_size();
    let item = |item: &[u8]| {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(item);
        let magnitude = u64::from_le_bytes(wide) & !(1 << (8 * size - 1));
        if magnitude > infinity {
            vec![0xff; size]
        } else {
            item.to_vec()
        }
    };
    data.chunks_exact(size).flat_map(item).collect()
}

/// Names and ids of any text come back as they were.
fn head_over_http(id: &str, response: &Response) {
    let request = ParsedCall { id: id.to_owned(), ..ParsedCall::default() };
    let response =
        Response { model_name: id.to_owned(), parameters: response.parameters.clone(), ..Response::default() };
    let json = encode_response(&request, &response).expect("nothing to be wrong").json;
    if matches!(response.parameters[0].1, Parameter::Double(number) if !number.is_finite()) {
        return;
    }
    let read: serde_json::Value = serde_json::from_slice(&json).expect("an answer is JSON");
    assert_eq!(read["model_name"].as_str(), Some(id));
    assert_eq!(read["id"].as_str().unwrap_or_default(), id);
    let (key, value) = &response.parameters[0];
    let read = &read["parameters"][key];
    match value {
        Parameter::Bool(value) => assert_eq!(read.as_bool(), Some(*value)),
        Parameter::Int(value) => assert_eq!(read.as_i64(), Some(*value)),
        Parameter::Uint(value) => assert_eq!(read.as_u64(), Some(*value)),
        // serde_json reads doubles to the last but one bit.
        Parameter::Double(_) => assert!(read.is_f64()),
        Parameter::String(value) => assert_eq!(read.as_str(), Some(value.as_str())),
    }
}

fn over_grpc(made: &[Made], id: &str, response: &Response) {
    let (unary, streamed) = match (encode::unary(response, id), encode::streamed(response, id)) {
        (Ok(unary), Ok(streamed)) => (unary, streamed),
        (Err(failure), Err(_)) => {
            assert!(made.iter().any(|tensor| !tensor.is_whole()), "{}", failure.message);
            return assert_eq!(failure.code, Code::INTERNAL);
        }
        _ => panic!("both forms of a response are right, or none is"),
    };
    let unary = InferResponse::decode(message(&unary)).expect("a message");
    compare(&unary, made, id);
    assert_eq!(unary.parameters, [entry(&response.parameters[0])]);
    let streamed = StreamResponse::decode(message(&streamed)).expect("a message");
    let streamed = streamed.infer_response.expect("a response");
    compare(&streamed, made, id);
    assert_eq!(streamed.parameters.len(), 2);
    assert_eq!(streamed.parameters[1].key, "triton_final_response");
}

fn compare(got: &InferResponse, made: &[Made], id: &str) {
    assert_eq!(got.id, id);
    assert_eq!((got.outputs.len(), got.raw_output_contents.len()), (made.len(), made.len()));
    for ((output, raw), tensor) in got.outputs.iter().zip(&got.raw_output_contents).zip(made) {
        assert_eq!((&output.name, &output.shape), (&tensor.name, &tensor.shape));
        assert_eq!(output.datatype, tensor.datatype.name());
        assert_eq!(&raw[..], &tensor.data[..]);
    }
}

fn entry((key, value): &(String, Parameter)) -> ParameterEntry {
    let choice = match value.clone() {
        Parameter::Bool(value) => ParameterChoice::Bool(value),
        Parameter::Int(value) => ParameterChoice::Int64(value),
        Parameter::Uint(value) => ParameterChoice::Uint64(value),
        Parameter::Double(value) => ParameterChoice::Double(value),
        Parameter::String(value) => ParameterChoice::String(value),
    };
    let value = InferParameter { choice: Some(choice) };
    ParameterEntry { key: key.clone(), value: Some(value) }
}

/// The message, whose prefix must say its length.
fn message(framed: &Framed) -> Bytes {
    let chunks: Vec<Bytes> = framed.chunks.iter().cloned().collect();
    let whole = Bytes::from(chunks.concat());
    let (prefix, message) = whole.split_first_chunk::<5>().expect("a prefix");
    assert_eq!(prefix[0], 0);
    assert_eq!(u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize, message.len());
    whole.slice(5..)
}
