//! Answers as JSON: the exact bytes that clients see.

use bytes::Bytes;
use charonia_wire::call::{Parameter, ParsedCall, RequestedOutput};
use charonia_wire::datatype::DataType;
use charonia_wire::reply::{OutputTensor, Response};
use charonia_wire::status::Code;
use charonia_wire::tensor::encode_response;

fn output(name: &str, datatype: DataType, shape: &[i64], data: impl Into<Bytes>) -> OutputTensor {
    OutputTensor { name: name.to_owned(), datatype, shape: shape.to_vec(), data: data.into(), is_elsewhere: false }
}

fn response(outputs: Vec<OutputTensor>) -> Response {
    let (model_name, model_version) = ("m".to_owned(), "1".to_owned());
    Response { model_name, model_version, outputs, is_final: true, ..Response::default() }
}

fn json(request: &ParsedCall, response: &Response) -> String {
    let encoded = encode_response(request, response).unwrap();
    String::from_utf8(encoded.json.to_vec()).unwrap()
}

/// The `data` of one output, without its brackets.
fn data_of(datatype: DataType, count: i64, data: impl Into<Bytes>) -> String {
    let text = json(&ParsedCall::default(), &response(vec![output("Y", datatype, &[count], data)]));
    text.split_once("\"data\":[").unwrap().1.strip_suffix("]}]}").unwrap().to_owned()
}

fn fp32(values: &[f32]) -> String {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    data_of(DataType::Fp32, i64::try_from(values.len()).unwrap(), data)
}

fn fp64(values: &[f64]) -> String {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    data_of(DataType::Fp64, i64::try_from(values.len()).unwrap(), data)
}

#[test]
fn an_output_that_lies_elsewhere_is_only_described() {
    let mut placed = output("X", DataType::Int32, &[2, 3], Vec::new());
    placed.is_elsewhere = true;
    let mut texts = output("T", DataType::Bytes, &[4], Vec::new());
    texts.is_elsewhere = true;
    let beside = output("Y", DataType::Uint8, &[1], vec![7]);
    let response = Response { model_name: "m".to_owned(), outputs: vec![placed, texts, beside], ..Response::default() };
    for (binary, tail) in [(false, 0), (true, 1)] {
        let request = ParsedCall { binary_default: binary, ..ParsedCall::default() };
        let encoded = encode_response(&request, &response).expect("nothing to check where nothing is");
        let json: serde_json::Value = serde_json::from_slice(&encoded.json).expect("JSON");
        assert_eq!(json["outputs"][0], serde_json::json!({"name": "X", "datatype": "INT32", "shape": [2, 3]}));
        assert_eq!(json["outputs"][1], serde_json::json!({"name": "T", "datatype": "BYTES", "shape": [4]}));
        assert_eq!((encoded.tail.len(), encoded.is_binary()), (tail, binary));
    }
}

#[test]
fn a_plain_answer() {
    let outputs = vec![
        output("OUTPUT0", DataType::Int32, &[4], vec![5, 0, 0, 0, 6, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0]),
        output("OUTPUT1", DataType::Fp32, &[1, 0], Bytes::new()),
    ];
    let expected = concat!(
        r#"{"model_name":"m","model_version":"1","outputs":["#,
        r#"{"name":"OUTPUT0","datatype":"INT32","shape":[4],"data":[5,6,-1,0]},"#,
        r#"{"name":"OUTPUT1","datatype":"FP32","shape":[1,0],"data":[]}]}"#
    );
    assert_eq!(json(&ParsedCall::default(), &response(outputs)), expected);
}

#[test]
fn id_and_parameters_stand_in_their_places() {
    let request = ParsedCall { id: "a\"b".to_owned(), ..ParsedCall::default() };
    let mut answer = response(Vec::new());
    let parameters = [
        ("s", Parameter::String("x\n".to_owned())),
        ("i", Parameter::Int(-1)),
        ("u", Parameter::Uint(u64::MAX)),
        ("d", Parameter::Double(0.5)),
        ("b", Parameter::Bool(true)),
    ];
    answer.parameters = parameters.map(|(key, value)| (key.to_owned(), value)).into();
    let expected = concat!(
        r#"{"id":"a\"b","model_name":"m","model_version":"1","#,
        r#""parameters":{"s":"x\n","i":-1,"u":18446744073709551615,"d":0.5,"b":true},"outputs":[]}"#
    );
    assert_eq!(json(&request, &answer), expected);
}

#[test]
fn binary_outputs_are_announced_and_handed_through() {
    let (first, second) = (Bytes::from(vec![1; 16]), Bytes::from(vec![2; 4]));
    let outputs = vec![
        output("A", DataType::Int32, &[4], first.clone()),
        output("J", DataType::Int8, &[1], vec![5]),
        output("B", DataType::Fp32, &[1], second.clone()),
        output("E", DataType::Fp32, &[0], Bytes::new()),
    ];
    let as_json = RequestedOutput { name: "J".to_owned(), binary: false, ..RequestedOutput::default() };
    let request = ParsedCall { binary_default: true, outputs: vec![as_json], ..ParsedCall::default() };
    let encoded = encode_response(&request, &response(outputs)).unwrap();
    let expected = concat!(
        r#"{"model_name":"m","model_version":"1","outputs":["#,
        r#"{"name":"A","datatype":"INT32","shape":[4],"parameters":{"binary_data_size":16}},"#,
        r#"{"name":"J","datatype":"INT8","shape":[1],"data":[5]},"#,
        r#"{"name":"B","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},"#,
        r#"{"name":"E","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}}]}"#
    );
    assert_eq!(&encoded.json[..], expected.as_bytes());
    let pointers = |tail: &[Bytes]| tail.iter().map(|bytes| bytes.as_ptr()).collect::<Vec<_>>();
    assert_eq!(pointers(&encoded.tail), pointers(&[first, second]));
    assert!(encoded.is_binary());
    assert_eq!(encoded.total_bytes(), expected.len() + 20);
}

#[test]
fn without_a_binary_byte_the_answer_is_json() {
    let request = ParsedCall { binary_default: true, ..ParsedCall::default() };
    let answer = response(vec![output("E", DataType::Fp32, &[0], Bytes::new())]);
    assert!(!encode_response(&request, &answer).unwrap().is_binary());
}

#[test]
fn fp32_is_printed_as_the_shortest_form_of_its_double() {
    let printed = fp32(&[0.1, 1e30, 1e-10, 123_456_789.0, 1.0, -2.5, 0.0, -0.0, 0.5]);
    let expected = "0.10000000149011612,1.0000000150474662e30,1.000000013351432e-10,123456792.0,1.0,-2.5,0.0,-0.0,0.5";
    assert_eq!(printed, expected);
    assert_eq!(fp32(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]), "NaN,Infinity,-Infinity");
    assert_eq!(fp32(&[f32::MAX, f32::MIN_POSITIVE]), "3.4028234663852886e38,1.1754943508222875e-38");
}

#[test]
fn exponents_begin_where_clients_know_them() {
    let cases = [
        (1e15, "1000000000000000.0"),
        (999_999_999_999_999.0, "999999999999999.0"),
        (999_999_999_999_999.5, "999999999999999.5"),
        (1.25e17, "125000000000000000.0"),
        (-123_456_789_012_345_678.0, "-123456789012345680.0"),
        (1e20, "100000000000000000000.0"),
        (1e21, "1e21"),
        (1.5e21, "1.5e21"),
        (1.234e-4, "0.0001234"),
        (1e-5, "0.00001"),
        (-1.25e-5, "-0.0000125"),
        (1.25e-6, "0.00000125"),
        (1e-6, "0.000001"),
        (9.5e-7, "9.5e-7"),
        (1e-7, "1e-7"),
        (f64::MAX, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (0.1, "0.1"),
    ];
    for (value, text) in cases {
        assert_eq!(fp64(&[value]), text);
    }
}

#[test]
fn half_types_are_numbers() {
    assert_eq!(data_of(DataType::Fp16, 3, vec![0x00, 0x3c, 0x66, 0x2e, 0x00, 0xfc]), "1.0,0.0999755859375,-Infinity");
    assert_eq!(data_of(DataType::Bf16, 2, vec![0x80, 0x3f, 0x80, 0x7f]), "1.0,Infinity");
}

#[test]
fn integers_and_booleans() {
    assert_eq!(data_of(DataType::Uint64, 2, [[0xff; 8], [0; 8]].concat()), "18446744073709551615,0");
    assert_eq!(data_of(DataType::Int64, 1, i64::MIN.to_le_bytes().to_vec()), "-9223372036854775808");
    assert_eq!(data_of(DataType::Uint32, 1, vec![255; 4]), "4294967295");
    assert_eq!(data_of(DataType::Int16, 1, vec![0, 0x80]), "-32768");
    assert_eq!(data_of(DataType::Uint16, 1, vec![255; 2]), "65535");
    assert_eq!(data_of(DataType::Int8, 2, vec![0x80, 1]), "-128,1");
    assert_eq!(data_of(DataType::Uint8, 2, vec![0x80, 1]), "128,1");
    assert_eq!(data_of(DataType::Bool, 2, vec![1, 0]), "true,false");
}

#[test]
fn strings_are_escaped_where_json_needs_it() {
    let framed = |elements: &[&[u8]]| {
        let frame = |element: &&[u8]| [&u32::try_from(element.len()).unwrap().to_le_bytes()[..], element].concat();
        elements.iter().map(frame).collect::<Vec<_>>().concat()
    };
    let strings = framed(&["bé\0\"x".as_bytes(), b"", b"\\/\x08\x0c\n\r\t\x1f\x7f"]);
    let expected = concat!(r#""bé\u0000\"x","","\\/\b\f\n\r\t\u001F"#, "\x7f\"");
    assert_eq!(data_of(DataType::Bytes, 3, strings), expected);
    let raw = output("Y", DataType::Bytes, &[1], framed(&[b"\xff\xfe"]));
    let encoded = encode_response(&ParsedCall::default(), &response(vec![raw])).unwrap();
    assert!(encoded.json.ends_with(b"\"data\":[\"\xff\xfe\"]}]}"));
}

#[test]
fn an_output_that_does_not_match_its_shape_is_the_servers_fault() {
    let broken = [
        output("Y", DataType::Int32, &[2], vec![0; 4]),
        output("Y", DataType::Int32, &[1], vec![0; 5]),
        output("Y", DataType::Int32, &[-1], vec![0; 4]),
        output("Y", DataType::Bytes, &[1], vec![9, 0, 0, 0]),
        output("Y", DataType::Bytes, &[2], vec![0; 4]),
    ];
    let binary = ParsedCall { binary_default: true, ..ParsedCall::default() };
    let as_json = broken.iter().map(|output| (ParsedCall::default(), output));
    let as_bytes = broken[..3].iter().map(|output| (binary.clone(), output));
    for (request, output) in as_json.chain(as_bytes) {
        let failure = encode_response(&request, &response(vec![output.clone()])).unwrap_err();
        assert_eq!(failure.code, Code::INTERNAL);
        assert!(failure.message.contains("output 'Y' of model 'm' does not match its shape"), "{}", failure.message);
    }
}
