//! A right JSON header in any order of its members, and binary parts that fit it or not.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::options::RequestLimits;
use charonia_wire::tensor::decode_request;

use super::accepted;
use super::measure;
use super::tensors::{self, Made};

/// Tensors are slices of the body, or copied once; names and shapes become more than their text.
const GROWTH: usize = 16;

pub fn run(input: &[u8]) {
    let _ = check(&mut Unstructured::new(input));
}

fn check(from: &mut Unstructured<'_>) -> Result<()> {
    let made = Made::some(from)?;
    let sizes: Vec<u64> = made.iter().map(|tensor| size(from, tensor)).collect::<Result<_>>()?;
    let inputs: Vec<String> =
        made.iter().zip(&sizes).map(|(tensor, size)| describe(from, tensor, *size)).collect::<Result<_>>()?;
    let json = format!(r#"{{"inputs":[{}]}}"#, inputs.join(","));
    let mut tail: Vec<u8> = made.iter().flat_map(|tensor| tensor.data.clone()).collect();
    if from.ratio(1, 8)? {
        tail.push(0);
    }
    let body = Bytes::from([json.as_bytes(), &tail].concat());
    let decode = || decode_request("m", "1", &body, json.len(), RequestLimits::default());
    let call = measure::bounded(GROWTH * body.len(), decode);
    compare(&call, &made, expected(&made, &sizes, &tail), body.len());
    Ok(())
}

/// Mostly the right one.
fn size(from: &mut Unstructured<'_>, tensor: &Made) -> Result<u64> {
    let right = tensor.data.len() as u64;
    match from.ratio(1, 8)? {
        true => from.choose(&[right + 1, right.saturating_sub(1), u64::MAX, i64::MAX.unsigned_abs()]).copied(),
        false => Ok(right),
    }
}

fn describe(from: &mut Unstructured<'_>, tensor: &Made, size: u64) -> Result<String> {
    let name = serde_json::to_string(&tensor.name).unwrap_or_default();
    let mut members = [
        format!(r#""name":{name}"#),
        format!(r#""datatype":"{}""#, tensor.datatype.name()),
        format!(r#""shape":{:?}"#, tensor.shape),
        format!(r#""parameters":{{"binary_data_size":{size}}}"#),
        r#""unknown":[{"a":null},1e9]"#.to_owned(),
    ];
    for last in (1..members.len()).rev() {
        members.swap(last, from.int_in_range(0..=last)?);
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// Each tensor's bytes; None when the request is wrong.
fn expected(made: &[Made], sizes: &[u64], mut tail: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    for (tensor, &size) in made.iter().zip(sizes) {
        let (part, rest) = tail.split_at_checked(usize::try_from(size).ok()?)?;
        if !tensors::is_whole(tensor.datatype, &tensor.shape, part) {
            return None;
        }
        parts.push(part.to_vec());
        tail = rest;
    }
    tail.is_empty().then_some(parts)
}

pub fn compare(call: &ParsedCall, made: &[Made], expected: Option<Vec<Vec<u8>>>, request_bytes: usize) {
    let Some(parts) = expected else {
        let failure = call.defect.as_ref().expect("a wrong request is refused");
        return accepted::refusal(failure, request_bytes);
    };
    assert_eq!(call.defect, None);
    accepted::call(call, RequestLimits::default());
    assert_eq!(call.inputs.len(), made.len());
    for ((input, tensor), part) in call.inputs.iter().zip(made).zip(&parts) {
        assert_eq!((&input.name, input.datatype, &input.shape), (&tensor.name, tensor.datatype, &tensor.shape));
        assert_eq!(&input.data[..], &part[..]);
    }
}
