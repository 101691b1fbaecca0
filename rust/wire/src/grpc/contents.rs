//! Typed tensor contents (`InferTensorContents`) to the bytes of a tensor.

use std::fmt::Display;

use bytemuck::Pod;
use bytes::Bytes;

use super::messages::InferTensorContents;
use crate::datatype::DataType;
use crate::reply::Failure;
use crate::tensor::aligned;
use crate::tensor::check::invalid;

/// The bytes of the field that belongs to `datatype`; none when all fields are empty.
///
/// Fails when another field is filled as well or instead, and when an element does not fit the datatype. The number of
/// elements is not checked here.
pub fn to_bytes(model: &str, input: &str, datatype: DataType, contents: InferTensorContents) -> Result<Bytes, Failure> {
    let place = Place { model, input, datatype };
    let own = field_of(datatype);
    if let Some(other) = filled_fields(&contents).find(|&field| Some(field) != own) {
        return Err(place.unexpected(other));
    }
    match datatype {
        DataType::Bool => Ok(contents.bool_contents.into_iter().map(u8::from).collect()),
        DataType::Int8 => place.narrowed::<i8, _>(&contents.int_contents),
        DataType::Int16 => place.narrowed::<i16, _>(&contents.int_contents),
        DataType::Int32 => Ok(aligned::from_vec(contents.int_contents)),
        DataType::Int64 => Ok(aligned::from_vec(contents.int64_contents)),
        DataType::Uint8 => place.narrowed::<u8, _>(&contents.uint_contents),
        DataType::Uint16 => place.narrowed::<u16, _>(&contents.uint_contents),
        DataType::Uint32 => Ok(aligned::from_vec(contents.uint_contents)),
        DataType::Uint64 => Ok(aligned::from_vec(contents.uint64_contents)),
        DataType::Fp32 => Ok(aligned::from_vec(contents.fp32_contents)),
        DataType::Fp64 => Ok(aligned::from_vec(contents.fp64_contents)),
        DataType::Bytes => place.strings(&contents.bytes_contents),
        DataType::Fp16 | DataType::Bf16 => Err(place.only_raw()),
    }
}

/// The field that carries a datatype, named by the widest of its datatypes. FP16 and BF16 have none: they come raw.
fn field_of(datatype: DataType) -> Option<DataType> {
    match datatype {
        DataType::Int8 | DataType::Int16 => Some(DataType::Int32),
        DataType::Uint8 | DataType::Uint16 => Some(DataType::Uint32),
        DataType::Fp16 | DataType::Bf16 => None,
        other => Some(other),
    }
}

fn filled_fields(contents: &InferTensorContents) -> impl Iterator<Item = DataType> {
    let fields = [
        (contents.bool_contents.is_empty(), DataType::Bool),
        (contents.int_contents.is_empty(), DataType::Int32),
        (contents.int64_contents.is_empty(), DataType::Int64),
        (contents.uint_contents.is_empty(), DataType::Uint32),
        (contents.uint64_contents.is_empty(), DataType::Uint64),
        (contents.fp32_contents.is_empty(), DataType::Fp32),
        (contents.fp64_contents.is_empty(), DataType::Fp64),
        (contents.bytes_contents.is_empty(), DataType::Bytes),
    ];
    fields.into_iter().filter(|(is_empty, _)| !is_empty).map(|(_, field)| field)
}

/// Where the contents stand, for messages.
struct Place<'a> {
    model: &'a str,
    input: &'a str,
    datatype: DataType,
}

impl Place<'_> {
    fn narrowed<T, W>(&self, items: &[W]) -> Result<Bytes, Failure>
    where
        T: TryFrom<W> + Pod + Send,
        W: Copy + Display,
    {
        let narrow = |(index, item): (usize, &W)| T::try_from(*item).map_err(|_| self.out_of_range(index, item));
        items.iter().enumerate().map(narrow).collect::<Result<Vec<T>, _>>().map(aligned::from_vec)
    }

    fn strings(&self, elements: &[Bytes]) -> Result<Bytes, Failure> {
        let mut serialised = Vec::with_capacity(elements.iter().map(|element| element.len() + 4).sum());
        for (index, element) in elements.iter().enumerate() {
            let length = u32::try_from(element.len());
            let length = length.map_err(|_| self.out_of_range(index, &"a string of 4 GiB or more"))?;
            serialised.extend_from_slice(&length.to_le_bytes());
            serialised.extend_from_slice(element);
        }
        Ok(serialised.into())
    }

    #[cold]
    fn unexpected(&self, field: DataType) -> Failure {
        let (model, input, got, wanted) = (self.model, self.input, field.name(), self.datatype.name());
        invalid(format!(
            "unexpected explicit tensor data for input tensor '{input}' for model '{model}' of type '{got}', \
             expected datatype '{wanted}'"
        ))
    }

    #[cold]
    fn only_raw(&self) -> Failure {
        let (model, input, name) = (self.model, self.input, self.datatype.name());
        invalid(format!(
            "input tensor '{input}' for model '{model}' has datatype {name}, which has no contents field: \
             use raw_input_contents"
        ))
    }

    #[cold]
    fn out_of_range(&self, index: usize, item: &dyn Display) -> Failure {
        let (model, input, name) = (self.model, self.input, self.datatype.name());
        invalid(format!("element {index} of input '{input}' for model '{model}' is out of range for {name}: {item}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(contents: InferTensorContents, datatype: DataType) -> Result<Vec<u8>, String> {
        to_bytes("m", "X", datatype, contents).map(|bytes| bytes.to_vec()).map_err(|failure| failure.message)
    }

    #[test]
    fn every_datatype_has_its_field() {
        let empty = InferTensorContents::default;
        let cases = [
            (InferTensorContents { bool_contents: vec![true, false], ..empty() }, DataType::Bool, vec![1, 0]),
            (InferTensorContents { int_contents: vec![-128, 127], ..empty() }, DataType::Int8, vec![0x80, 0x7f]),
            (InferTensorContents { int_contents: vec![-2], ..empty() }, DataType::Int16, vec![0xfe, 0xff]),
            (InferTensorContents { int_contents: vec![1], ..empty() }, DataType::Int32, vec![1, 0, 0, 0]),
            (InferTensorContents { int64_contents: vec![-1], ..empty() }, DataType::Int64, vec![0xff; 8]),
            (InferTensorContents { uint_contents: vec![255], ..empty() }, DataType::Uint8, vec![255]),
            (InferTensorContents { uint_contents: vec![65535], ..empty() }, DataType::Uint16, vec![255; 2]),
            (InferTensorContents { uint_contents: vec![u32::MAX], ..empty() }, DataType::Uint32, vec![255; 4]),
            (InferTensorContents { uint64_contents: vec![u64::MAX], ..empty() }, DataType::Uint64, vec![255; 8]),
            (InferTensorContents { fp32_contents: vec![1.0], ..empty() }, DataType::Fp32, 1_f32.to_le_bytes().to_vec()),
            (InferTensorContents { fp64_contents: vec![1.0], ..empty() }, DataType::Fp64, 1_f64.to_le_bytes().to_vec()),
            (
                InferTensorContents { bytes_contents: vec![Bytes::from_static(b"ab"), Bytes::new()], ..empty() },
                DataType::Bytes,
                b"\x02\0\0\0ab\0\0\0\0".to_vec(),
            ),
            (empty(), DataType::Fp32, vec![]),
        ];
        for (contents, datatype, expected) in cases {
            assert_eq!(convert(contents, datatype), Ok(expected), "{datatype:?}");
        }
    }

    #[test]
    fn values_must_fit() {
        let contents = InferTensorContents { int_contents: vec![1, 128], ..InferTensorContents::default() };
        let told = convert(contents, DataType::Int8).unwrap_err();
        assert_eq!(told, "element 1 of input 'X' for model 'm' is out of range for INT8: 128");
    }

    #[test]
    fn the_field_must_be_the_datatypes_own_and_the_only_one() {
        let ints = InferTensorContents { int_contents: vec![1], ..InferTensorContents::default() };
        let told = convert(ints.clone(), DataType::Int64).unwrap_err();
        assert_eq!(
            told,
            "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype 'INT64'"
        );
        let both = InferTensorContents { uint_contents: vec![1], ..ints };
        assert!(convert(both, DataType::Int32).unwrap_err().contains("of type 'UINT32'"));
        assert!(convert(InferTensorContents::default(), DataType::Fp16)
            .unwrap_err()
            .contains("use raw_input_contents"));
    }
}
