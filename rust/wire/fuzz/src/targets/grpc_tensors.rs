//! A right `ModelInferRequest` with raw or typed contents that fit its tensors or not.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use charonia_wire::datatype::DataType;
use charonia_wire::grpc::decode::decode;
use charonia_wire::grpc::messages::{InferInputTensor, InferTensorContents, ModelInferRequest};
use charonia_wire::options::RequestLimits;
use prost::Message;

use super::binary_parts::compare;
use super::measure;
use super::tensors::{self, Made};

const GROWTH: usize = 32;

pub fn run(input: &[u8]) {
    let _ = check(&mut Unstructured::new(input));
}

fn check(from: &mut Unstructured<'_>) -> Result<()> {
    let made = Made::some(from)?;
    let mut inputs: Vec<InferInputTensor> = made.iter().map(describe).collect();
    let mut raw: Vec<Bytes> = Vec::new();
    let expected = match from.arbitrary()? {
        true => {
            raw = made.iter().map(|tensor| tensor.data.clone().into()).collect();
            if from.ratio(1, 8)? {
                raw.push(Bytes::new());
            }
            let right = raw.len() == made.len() && made.iter().all(Made::is_whole);
            right.then(|| raw.iter().map(|part| part.to_vec()).collect())
        }
        false => typed(from, &made, &mut inputs)?,
    };
    let message = ModelInferRequest {
        model_name: "m".to_owned(),
        inputs,
        raw_input_contents: raw,
        ..ModelInferRequest::default()
    };
    let message = Bytes::from(message.encode_to_vec());
    let length = message.len();
    let call = measure::bounded(GROWTH * length, || decode(message, RequestLimits::default())).expect("a message");
    compare(&call, &made, expected, length);
    Ok(())
}

fn describe(tensor: &Made) -> InferInputTensor {
    InferInputTensor {
        name: tensor.name.clone(),
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape.clone(),
        ..InferInputTensor::default()
    }
}

/// Fills the inputs' contents; each tensor's bytes, or None when the request is wrong.
fn typed(from: &mut Unstructured<'_>, made: &[Made], inputs: &mut [InferInputTensor]) -> Result<Option<Vec<Vec<u8>>>> {
    let (mut parts, mut right) = (Vec::new(), true);
    for (tensor, input) in made.iter().zip(inputs) {
        let (mut contents, part) = contents(tensor.datatype, &tensor.data);
        let has_field = !matches!(tensor.datatype, DataType::Fp16 | DataType::Bf16);
        right &= has_field && tensors::is_whole(tensor.datatype, &tensor.shape, &part);
        if from.ratio(1, 8)? {
            right &= !spoil(from, tensor.datatype, &mut contents)?;
        }
        input.contents = Some(Box::new(contents));
        parts.push(part);
    }
    Ok(right.then_some(parts))
}

/// The whole items of `data` as typed contents, and the bytes that they stand for.
fn contents(datatype: DataType, data: &[u8]) -> (InferTensorContents, Vec<u8>) {
    let mut contents = InferTensorContents::default();
    if datatype == DataType::Bytes {
        let strings = tensors::strings(data).unwrap_or_default();
        contents.bytes_contents = strings.iter().map(|string| Bytes::copy_from_slice(string)).collect();
        let framed = |string: &&[u8]| [&u32::try_from(string.len()).unwrap_or(0).to_le_bytes()[..], string].concat();
        return (contents, strings.iter().flat_map(framed).collect());
    }
    let size = datatype.item_size();
    let mut whole = data[..data.len() / size * size].to_vec();
    for item in whole.chunks_exact_mut(size) {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(item);
        let signed = i64::from_le_bytes(wide) << (64 - 8 * size) >> (64 - 8 * size);
        let unsigned = u64::from_le_bytes(wide);
        match datatype {
            DataType::Bool => {
                item[0] = u8::from(item[0] != 0);
                contents.bool_contents.push(item[0] == 1);
            }
            DataType::Int8 | DataType::Int16 | DataType::Int32 => {
                contents.int_contents.push(i32::try_from(signed).unwrap_or_default());
            }
            DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => {
                contents.uint_contents.push(u32::try_from(unsigned).unwrap_or_default());
            }
            DataType::Int64 => contents.int64_contents.push(signed),
            DataType::Uint64 => contents.uint64_contents.push(unsigned),
            DataType::Fp32 => contents.fp32_contents.push(f32::from_bits(u32::try_from(unsigned).unwrap_or_default())),
            DataType::Fp64 => contents.fp64_contents.push(f64::from_bits(unsigned)),
            DataType::Fp16 | DataType::Bf16 | DataType::Bytes => {}
        }
    }
    (contents, whole)
}

/// Make the contents wrong; false when there is nothing to spoil.
fn spoil(from: &mut Unstructured<'_>, datatype: DataType, contents: &mut InferTensorContents) -> Result<bool> {
    if from.arbitrary()? {
        match datatype {
            DataType::Fp32 => contents.fp64_contents.push(1.0),
            _ => contents.fp32_contents.push(1.0),
        }
        return Ok(true);
    }
    match datatype {
        DataType::Int8 | DataType::Int16 if !contents.int_contents.is_empty() => contents.int_contents[0] = i32::MIN,
        DataType::Uint8 | DataType::Uint16 if !contents.uint_contents.is_empty() => contents.uint_contents[0] = 65_536,
        _ => return Ok(false),
    }
    Ok(true)
}
