//! Checks of a tensor's bytes against its own shape and datatype. They need no model; all doors use them.

use crate::call::InputTensor;
use crate::datatype::DataType;
use crate::reply::Failure;
use crate::status::Code;

/// The largest element count and byte size of a tensor: what a signed 64-bit size holds.
const MAX_SIZE: u64 = i64::MAX as u64;

/// What arrays of `NumPy` can have.
pub const MAX_DIMS: usize = 64;

/// A text takes a pointer in an array of objects.
const TEXT_BYTES: usize = 8;

pub fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Code::INVALID_ARGUMENT, message)
}

/// `[1,4]`, as messages write shapes.
pub fn shape_text(shape: &[i64]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}

/// The product of the dims. Refuses negative dims, and overflow even where another dim is 0.
pub fn element_count(model: &str, input: &str, shape: &[i64]) -> Result<u64, Failure> {
    let product = nonzero_product(model, input, shape)?;
    Ok(if shape.contains(&0) { 0 } else { product })
}

/// Arrays count like this, also those without an element.
fn nonzero_product(model: &str, input: &str, shape: &[i64]) -> Result<u64, Failure> {
    if shape.len() > MAX_DIMS {
        return Err(too_many_dims(model, input, shape.len()));
    }
    shape.iter().try_fold(1_u64, |product, &dim| {
        let dim = u64::try_from(dim).map_err(|_| negative_dim(model, input, shape))?;
        let product = product.checked_mul(dim.max(1)).filter(|&product| product <= MAX_SIZE);
        product.ok_or_else(|| count_overflow(model, input, shape))
    })
}

/// Bytes that the tensor must have; None for BYTES, where only the bytes themselves tell.
pub fn byte_size(model: &str, input: &str, datatype: DataType, shape: &[i64]) -> Result<Option<u64>, Failure> {
    let product = nonzero_product(model, input, shape)?;
    let is_text = datatype == DataType::Bytes;
    let item = if is_text { TEXT_BYTES } else { datatype.item_size() };
    let size = product.checked_mul(item as u64).filter(|&size| size <= MAX_SIZE);
    let size = size.ok_or_else(|| size_overflow(model, input, datatype, shape))?;
    Ok((!is_text).then_some(if shape.contains(&0) { 0 } else { size }))
}

/// An input's bytes have the size its shape and datatype ask for; BYTES elements are framed and counted right.
pub fn input(model: &str, tensor: &InputTensor) -> Result<(), Failure> {
    tensor_bytes(model, &tensor.name, tensor.datatype, &tensor.shape, &tensor.data)
}

/// As `input`, from the parts.
pub fn tensor_bytes(model: &str, name: &str, datatype: DataType, shape: &[i64], data: &[u8]) -> Result<(), Failure> {
    match byte_size(model, name, datatype, shape)? {
        Some(expected) if expected == data.len() as u64 => Ok(()),
        Some(expected) => Err(size_mismatch(model, name, expected, data.len())),
        None => bytes_framing(model, name, element_count(model, name, shape)?, data),
    }
}

/// `data` is exactly `expected` strings, each behind its length in 4 little-endian bytes.
pub fn bytes_framing(model: &str, name: &str, expected: u64, data: &[u8]) -> Result<(), Failure> {
    let mut rest = data;
    let mut count: u64 = 0;
    while let Some((prefix, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*prefix);
        rest = behind.get(length as usize..).ok_or_else(|| cut_string(model, name, count, length, behind.len()))?;
        count += 1;
    }
    if !rest.is_empty() {
        return Err(cut_prefix(model, name, count, rest.len()));
    }
    if count == expected {
        return Ok(());
    }
    Err(wrong_string_count(model, name, expected, count))
}

#[cold]
fn negative_dim(model: &str, input: &str, shape: &[i64]) -> Failure {
    let shape = shape_text(shape);
    invalid(format!("input '{input}' for model '{model}' has shape {shape}: dims must not be negative"))
}

#[cold]
fn too_many_dims(model: &str, input: &str, count: usize) -> Failure {
    invalid(format!("input '{input}' for model '{model}' has {count} dims, at most {MAX_DIMS} can be"))
}

#[cold]
fn count_overflow(model: &str, input: &str, shape: &[i64]) -> Failure {
    let shape = shape_text(shape);
    invalid(format!(
        "shape {shape} of input '{input}' for model '{model}' causes total element count to exceed maximum size of {MAX_SIZE}"
    ))
}

#[cold]
fn size_overflow(model: &str, input: &str, datatype: DataType, shape: &[i64]) -> Failure {
    let (shape, datatype) = (shape_text(shape), datatype.name());
    invalid(format!("byte size overflow for input '{input}' for model '{model}': {datatype} of shape {shape}"))
}

#[cold]
fn size_mismatch(model: &str, input: &str, expected: u64, got: usize) -> Failure {
    invalid(format!("input byte size mismatch for input '{input}' for model '{model}'. Expected {expected}, got {got}"))
}

#[cold]
fn cut_string(model: &str, input: &str, index: u64, length: u32, left: usize) -> Failure {
    invalid(format!(
        "incomplete string data for inference input '{input}' for model '{model}': element {index} has {length} bytes \
         by its length prefix, {left} are left"
    ))
}

#[cold]
fn cut_prefix(model: &str, input: &str, index: u64, left: usize) -> Failure {
    invalid(format!(
        "incomplete string length indicator for inference input '{input}' for model '{model}': element {index} needs a \
         4-byte length prefix, {left} bytes are left"
    ))
}

#[cold]
fn wrong_string_count(model: &str, input: &str, expected: u64, got: u64) -> Failure {
    if got < expected {
        return invalid(format!(
            "expected {expected} string elements for inference input '{input}' for model '{model}', got {got}"
        ));
    }
    invalid(format!(
        "unexpected number of string elements {got} for inference input '{input}' for model '{model}', its shape has \
         {expected}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<(), Failure>) -> String {
        let failure = result.unwrap_err();
        assert_eq!(failure.code, Code::INVALID_ARGUMENT);
        failure.message
    }

    #[test]
    fn sizes_must_agree() {
        assert!(tensor_bytes("m", "X", DataType::Fp32, &[1, 8], &[0; 32]).is_ok());
        let told = message(tensor_bytes("m", "X", DataType::Fp32, &[1, 8], &[0; 40]));
        assert_eq!(told, "input byte size mismatch for input 'X' for model 'm'. Expected 32, got 40");
        assert!(tensor_bytes("m", "X", DataType::Int64, &[], &[0; 8]).is_ok());
        assert!(tensor_bytes("m", "X", DataType::Fp16, &[0, 5], &[]).is_ok());
    }

    #[test]
    fn overflow_is_seen_in_counts_and_in_bytes() {
        let told = message(tensor_bytes("m", "X", DataType::Uint8, &[1 << 62, 2], &[]));
        assert!(told.contains("causes total element count to exceed maximum size of"), "{told}");
        assert_eq!(element_count("m", "X", &[i64::MAX]), Ok(i64::MAX as u64));
        assert!(element_count("m", "X", &[1 << 40, 1 << 40, 0]).is_err());
        assert!(tensor_bytes("m", "X", DataType::Uint8, &[0, 1 << 62], &[]).is_ok());
        for datatype in [DataType::Fp64, DataType::Bytes] {
            let told = message(tensor_bytes("m", "X", datatype, &[0, 1 << 62], &[]));
            assert!(told.contains("byte size overflow"), "{told}");
        }
        assert!(message(tensor_bytes("m", "X", DataType::Uint8, &[1; 65], &[0])).contains("65 dims"));
        assert!(tensor_bytes("m", "X", DataType::Uint8, &[1; 64], &[0]).is_ok());
        let told = message(tensor_bytes("m", "X", DataType::Fp64, &[1 << 61], &[]));
        assert!(told.contains("byte size overflow for input 'X' for model 'm'"), "{told}");
        assert!(message(tensor_bytes("m", "X", DataType::Fp64, &[-1], &[])).contains("[-1]"));
    }

    #[test]
    fn string_prefixes_must_add_up() {
        let two = b"\x01\0\0\0a\0\0\0\0";
        assert!(bytes_framing("m", "T", 2, two).is_ok());
        assert!(bytes_framing("m", "T", 0, b"").is_ok());
        let told = message(bytes_framing("m", "T", 1, two));
        assert!(
            told.contains("unexpected number of string elements 2 for inference input 'T' for model 'm'"),
            "{told}"
        );
        let told = message(bytes_framing("m", "T", 3, two));
        assert_eq!(told, "expected 3 string elements for inference input 'T' for model 'm', got 2");
        let told = message(bytes_framing("m", "T", 1, b"\x09\0\0\0abc"));
        assert!(
            told.contains("incomplete string data") && told.contains("9 bytes") && told.contains("3 are left"),
            "{told}"
        );
        let told = message(bytes_framing("m", "T", 1, b"\x01\0"));
        assert!(told.contains("incomplete string length indicator") && told.contains("2 bytes"), "{told}");
        assert!(bytes_framing("m", "T", 1, b"\xff\xff\xff\xff").is_err());
    }
}
