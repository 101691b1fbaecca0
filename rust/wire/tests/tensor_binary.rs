//! Binary inputs behind the JSON header, and raw requests.

use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::datatype::DataType;
use charonia_wire::options::RequestLimits;
use charonia_wire::status::Code;
use charonia_wire::tensor::{decode_raw_request, decode_request};

fn input(name: &str, datatype: &str, shape: &str, size: &str) -> String {
    format!(r#"{{"name":"{name}","datatype":"{datatype}","shape":{shape},"parameters":{{"binary_data_size":{size}}}}}"#)
}

fn decode(inputs: &[String], tail: &[u8]) -> ParsedCall {
    let json = format!(r#"{{"inputs":[{}]}}"#, inputs.join(","));
    let body = Bytes::from([json.as_bytes(), tail].concat());
    decode_request("m", "", &body, json.len(), RequestLimits::default())
}

fn accepted(inputs: &[String], tail: &[u8]) -> ParsedCall {
    let call = decode(inputs, tail);
    assert_eq!(call.defect, None);
    call
}

fn refused(inputs: &[String], tail: &[u8]) -> String {
    let failure = decode(inputs, tail).defect.expect("this must be refused");
    assert_eq!(failure.code, Code::INVALID_ARGUMENT);
    failure.message
}

fn two_inputs() -> [String; 2] {
    [input("A", "INT32", "[4]", "16"), input("B", "INT32", "[4]", "16")]
}

#[test]
fn the_tail_is_cut_in_the_inputs_order() {
    let tail: Vec<u8> = (0..32).collect();
    let call = accepted(&two_inputs(), &tail);
    assert_eq!(&call.inputs[0].data[..], &tail[..16]);
    assert_eq!(&call.inputs[1].data[..], &tail[16..]);
    assert!(call.inputs[0].parameters.is_empty());
}

#[test]
fn json_and_binary_inputs_may_be_mixed() {
    let json = r#"{"name":"J","datatype":"INT8","shape":[2],"data":[5,6]}"#.to_owned();
    let call =
        accepted(&[input("A", "UINT8", "[1]", "1"), json, input("B", "BYTES", "[1]", "6")], b"\x07\x02\0\0\0\xff\xfe");
    let data: Vec<&[u8]> = call.inputs.iter().map(|input| &input.data[..]).collect();
    assert_eq!(data, [&b"\x07"[..], b"\x05\x06", b"\x02\0\0\0\xff\xfe"]);
}

#[test]
fn a_fitting_address_is_not_copied_another_is_copied_once() {
    for padding in 0..8 {
        let head = format!(r#"{{"inputs":[{}]{}}}"#, input("A", "FP64", "[1]", "8"), " ".repeat(padding));
        let body = Bytes::from([head.as_bytes(), &[7; 8]].concat());
        let call = decode_request("m", "", &body, head.len(), RequestLimits::default());
        let (data, sent) = (call.inputs[0].data.as_ptr() as usize, body[head.len()..].as_ptr() as usize);
        assert_eq!(data % 8, 0);
        assert_eq!(data == sent, sent % 8 == 0);
        assert_eq!(&call.inputs[0].data[..], [7; 8]);
    }
}

#[test]
fn a_short_tail_names_the_input_and_what_lacks() {
    let told = refused(&two_inputs(), &[0; 28]);
    assert!(told.contains("unexpected size for input 'B', expecting 4 additional bytes for model 'm'"), "{told}");
    let told = refused(&two_inputs(), b"");
    assert!(told.contains("unexpected size for input 'A', expecting 16 additional bytes for model 'm'"), "{told}");
    let told = refused(&[input("A", "INT32", "[4]", "18446744073709551615")], &[0; 16]);
    assert!(told.contains("unexpected size for input 'A'") && told.contains("16 are left"), "{told}");
}

#[test]
fn a_long_tail_is_refused() {
    let told = refused(&two_inputs(), &[0; 36]);
    assert!(told.contains("unexpected additional input data for model 'm': 4 bytes"), "{told}");
    let told = refused(&[r#"{"name":"J","datatype":"INT8","shape":[1],"data":[5]}"#.to_owned()], b"x");
    assert!(told.contains("unexpected additional input data for model 'm'"), "{told}");
}

#[test]
fn the_size_must_fit_the_shape() {
    let told = refused(&[input("A", "INT32", "[4]", "12"), input("B", "INT32", "[4]", "16")], &[0; 28]);
    assert_eq!(told, "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 12");
    let told = refused(&[input("A", "FP32", "[1,8]", "40")], &[0; 40]);
    assert_eq!(told, "input byte size mismatch for input 'A' for model 'm'. Expected 32, got 40");
    let told = refused(&[input("A", "INT32", "[4]", "0")], b"");
    assert_eq!(told, "input byte size mismatch for input 'A' for model 'm'. Expected 16, got 0");
    assert_eq!(accepted(&[input("A", "INT32", "[4,0]", "0")], b"").inputs[0].data.len(), 0);
}

#[test]
fn strings_must_be_framed_right() {
    let told = |shape: &str, tail: &[u8]| refused(&[input("T", "BYTES", shape, &tail.len().to_string())], tail);
    assert!(told("[2]", b"\x03\0\0\0abc")
        .contains("expected 2 string elements for inference input 'T' for model 'm', got 1"));
    assert!(told("[1]", b"\x01\0\0\0a\x01\0\0\0b")
        .contains("unexpected number of string elements 2 for inference input 'T'"));
    assert!(told("[1]", b"\x01\0").contains("incomplete string length indicator for inference input 'T'"));
    assert!(told("[1]", b"\x09\0\0\0abc").contains("incomplete string data for inference input 'T'"));
    assert!(told("[1]", b"").contains("expected 1 string elements"));
}

#[test]
fn a_raw_request_is_one_nameless_input() {
    let body = Bytes::from_static(b"\x01\x02\x03\x04\x05");
    let call = decode_raw_request("m", "3", body.clone());
    assert!(call.raw && call.binary_default);
    assert_eq!(call.defect, None);
    assert_eq!((&*call.model_name, &*call.model_version), ("m", "3"));
    let [input] = &call.inputs[..] else { panic!("one input") };
    assert_eq!((&*input.name, input.datatype, input.shape.len()), ("", DataType::Bytes, 0));
    assert_eq!(input.data, body);
    assert_eq!(input.data.as_ptr() as usize % 8, 0);
}
