//! Random values through the codecs, compared with other people's parsers.

use charonia_wire::call::ParsedCall;
use charonia_wire::datatype::DataType;
use charonia_wire::options::RequestLimits;
use charonia_wire::reply::{OutputTensor, Response};
use charonia_wire::tensor::{decode_request, encode_response};
use half::{bf16, f16};
use proptest::prelude::*;

fn decode_data(datatype: DataType, count: usize, data: &[u8]) -> Result<Vec<u8>, String> {
    let head = format!(r#"{{"inputs":[{{"name":"X","datatype":"{}","shape":[{count}],"data":"#, datatype.name());
    let json = [head.as_bytes(), data, b"}]}"].concat();
    let length = json.len();
    let call = decode_request("m", "", &json.into(), length, RequestLimits::default());
    call.defect.map_or_else(|| Ok(call.inputs[0].data.to_vec()), |failure| Err(failure.message))
}

fn decode_one(datatype: DataType, text: &str) -> Result<Vec<u8>, String> {
    decode_data(datatype, 1, format!("[{text}]").as_bytes())
}

/// What an output of these bytes is as a JSON array.
fn encode_data(datatype: DataType, count: usize, data: Vec<u8>) -> Vec<u8> {
    let shape = vec![i64::try_from(count).unwrap()];
    let output = OutputTensor { name: "X".to_owned(), datatype, shape, data: data.into(), is_elsewhere: false };
    let response = Response { outputs: vec![output], ..Response::default() };
    let json = encode_response(&ParsedCall::default(), &response).unwrap().json;
    let start = json.windows(7).position(|window| window == b"\"data\":").unwrap() + 7;
    json[start..json.len() - 3].to_vec()
}

fn assert_round_trip(datatype: DataType, count: usize, data: &[u8]) {
    let json = encode_data(datatype, count, data.to_vec());
    let back = decode_data(datatype, count, &json);
    assert_eq!(back.as_deref(), Ok(data), "{}", String::from_utf8_lossy(&json));
}

/// Numbers as JSON writes them, with up to 40 digits and any exponent that matters.
fn number_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,9})?([eE](\\+|-|)[0-9]{1,2})?",
        "-?[1-9][0-9]{0,30}\\.[0-9]{1,30}",
        "-?[1-9][0-9]{0,30}\\.[0-9]{1,30}e-?[0-9]{1,2}",
        "-?0\\.0{0,45}[0-9]{1,20}",
    ]
}

/// The exact middle between a finite 16-bit value and the next one away from zero, with its bits.
fn middle(bits: u16, to: fn(u16) -> f64) -> f64 {
    f64::midpoint(to(bits), to(bits + 1))
}

/// Texts a tiny step below, at and above the exact value of `middle`.
fn around(middle: f64) -> [String; 3] {
    let exact = format!("{middle:.120e}");
    let (digits, exponent) = exact.split_once('e').unwrap();
    let below = format!("{:.120e}", middle.next_down());
    // One step of f64 is far more than these, so the digits alone decide.
    let (below_digits, below_exponent) = below.split_once('e').unwrap();
    let above = format!("{digits}1e{exponent}");
    let just_below = match just_below(digits) {
        Some(digits) => format!("{digits}e{exponent}"),
        None => format!("{below_digits}e{below_exponent}"),
    };
    [just_below, exact.clone(), above]
}

/// 1.25000 as 1.24999…9, the same number of digits and ten more; None for powers of ten.
fn just_below(digits: &str) -> Option<String> {
    let last = digits.rfind(|digit: char| digit.is_ascii_digit() && digit != '0')?;
    let (head, tail) = digits.split_at(last);
    let lowered = tail.as_bytes()[0] - 1;
    let nines: String = tail[1..].chars().map(|character| if character == '0' { '9' } else { character }).collect();
    let result = format!("{head}{}{nines}9999999999", char::from(lowered));
    result.starts_with(|digit: char| digit != '0').then_some(result)
}

fn half_bits(bytes: &[u8]) -> u16 {
    u16::from_le_bytes(bytes.try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fp32_is_rounded_once(text in number_text()) {
        let expected: f32 = text.parse().unwrap();
        let got = decode_one(DataType::Fp32, &text);
        if expected.is_finite() {
            prop_assert_eq!(got, Ok(expected.to_le_bytes().to_vec()), "{}", text);
        } else {
            prop_assert!(got.is_err());
        }
    }

    #[test]
    fn fp64_is_rounded_once(text in number_text()) {
        let expected: f64 = text.parse().unwrap();
        prop_assert_eq!(decode_one(DataType::Fp64, &text), Ok(expected.to_le_bytes().to_vec()), "{}", text);
    }

    #[test]
    fn fp32_near_ties(bits in 0_u32..0x7f7f_ffff, negative: bool) {
        let (low, high) = (f32::from_bits(bits), f32::from_bits(bits + 1));
        let middle = f64::midpoint(low.into(), high.into());
        for text in around(middle) {
            let text = if negative { format!("-{text}") } else { text };
            let expected: f32 = text.parse().unwrap();
            prop_assert_eq!(decode_one(DataType::Fp32, &text), Ok(expected.to_le_bytes().to_vec()), "{}", text);
        }
    }

    /// Without an exponent and with up to 19 digits numbers take a faster path.
    #[test]
    fn fp32_near_ties_in_plain_decimals(bits in 0x3a00_0000_u32..0x4b00_0000, digits in 1_usize..20) {
        let middle = f64::midpoint(f32::from_bits(bits).into(), f32::from_bits(bits + 1).into());
        for value in [middle.next_down(), middle, middle.next_up()] {
            let text = format!("{value:.digits$}");
            let expected: f32 = text.parse().unwrap();
            prop_assert_eq!(decode_one(DataType::Fp32, &text), Ok(expected.to_le_bytes().to_vec()), "{}", text);
            let expected: f64 = text.parse().unwrap();
            prop_assert_eq!(decode_one(DataType::Fp64, &text), Ok(expected.to_le_bytes().to_vec()), "{}", text);
        }
    }

    #[test]
    fn fp16_near_ties(bits in 0_u16..0x7bff) {
        let even = bits + (bits & 1);
        let texts = around(middle(bits, |bits| f16::from_bits(bits).to_f64()));
        for (text, expected) in texts.iter().zip([bits, even, bits + 1]) {
            prop_assert_eq!(half_bits(&decode_one(DataType::Fp16, text).unwrap()), expected, "{}", text);
            let negative = format!("-{text}");
            prop_assert_eq!(half_bits(&decode_one(DataType::Fp16, &negative).unwrap()), expected | 0x8000, "{}", text);
        }
    }

    #[test]
    fn bf16_near_ties(bits in 0_u16..0x7f7f) {
        let even = bits + (bits & 1);
        let texts = around(middle(bits, |bits| bf16::from_bits(bits).to_f64()));
        for (text, expected) in texts.iter().zip([bits, even, bits + 1]) {
            prop_assert_eq!(half_bits(&decode_one(DataType::Bf16, text).unwrap()), expected, "{}", text);
        }
    }

    #[test]
    fn integers_are_what_std_says(text in "-?(0|[1-9][0-9]{0,20})") {
        let signed = text.parse::<i64>().map(|value| value.to_le_bytes().to_vec()).ok();
        prop_assert_eq!(decode_one(DataType::Int64, &text).ok(), signed);
        let unsigned = text.strip_prefix("-0").map_or(&*text, |_| "0").parse::<u64>().map(|value| value.to_le_bytes().to_vec()).ok();
        prop_assert_eq!(decode_one(DataType::Uint64, &text).ok(), unsigned);
        let short = text.parse::<i16>().map(|value| value.to_le_bytes().to_vec()).ok();
        prop_assert_eq!(decode_one(DataType::Int16, &text).ok(), short);
    }

    #[test]
    fn strings_are_what_serde_json_writes(text: String, escaped: bool) {
        let json = serde_json::to_string(&[&text]).unwrap();
        let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
        let json = if escaped { format!("[\"{units}\"]") } else { json };
        let got = decode_data(DataType::Bytes, 1, json.as_bytes()).unwrap();
        prop_assert_eq!(&got[..4], &u32::try_from(text.len()).unwrap().to_le_bytes()[..]);
        prop_assert_eq!(&got[4..], text.as_bytes());
    }

    #[test]
    fn written_strings_are_read_by_serde_json(text: String) {
        let framed = [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
        let json = encode_data(DataType::Bytes, 1, framed);
        prop_assert_eq!(serde_json::from_slice::<Vec<String>>(&json).unwrap(), [text]);
    }

    #[test]
    fn written_doubles_are_read_by_std(bits: u64) {
        let value = f64::from_bits(bits);
        let json = encode_data(DataType::Fp64, 1, value.to_le_bytes().to_vec());
        let text = std::str::from_utf8(&json[1..json.len() - 1]).unwrap();
        prop_assume!(value.is_finite());
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
        prop_assert!(text.contains(['.', 'e']) && !text.contains('+'), "{}", text);
    }

    #[test]
    fn tensors_survive_the_way_out_and_in(words in prop::collection::vec(any::<u64>(), 0..20)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for datatype in DataType::ALL {
            if let Some(data) = valid_data(datatype, &bytes) {
                assert_round_trip(datatype, bytes.len() / datatype.item_size(), &data);
            }
        }
    }

    #[test]
    fn byte_strings_survive_the_way_out_and_in(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let frame = |string: &Vec<u8>| [&u32::try_from(string.len()).unwrap().to_le_bytes()[..], string].concat();
        assert_round_trip(DataType::Bytes, strings.len(), &strings.iter().flat_map(frame).collect::<Vec<u8>>());
    }

    #[test]
    fn any_bytes_are_answered(json in prop::collection::vec(any::<u8>(), 0..60), cut in 0_usize..80) {
        let _ = decode_request("m", "", &json.into(), cut, RequestLimits::default());
    }

    #[test]
    fn damaged_requests_are_answered(position in 0_usize..220, byte: u8, remove: bool) {
        let mut json = br#"{"id":"a\u00e9","inputs":[{"name":"X","datatype":"FP32","shape":[2],"data":[1.5e-3,NaN]},{"data":[["a\n"]],
            "name":"T","datatype":"BYTES","shape":[1],"parameters":{"a":true}}],"parameters":{"n":-1}}"#.to_vec();
        let position = position.min(json.len() - 1);
        if remove { json.remove(position); } else { json[position] = byte; }
        let length = json.len();
        let _ = decode_request("m", "", &json.into(), length, RequestLimits::default());
    }
}

/// Bytes that stand for themselves after a round trip: BOOL as 0 and 1, NaNs as the plain one.
fn valid_data(datatype: DataType, bytes: &[u8]) -> Option<Vec<u8>> {
    let chunks = |size: usize| bytes.chunks_exact(size);
    Some(match datatype {
        DataType::Bytes => return None,
        DataType::Bool => bytes.iter().map(|byte| byte & 1).collect(),
        DataType::Fp16 => chunks(2).flat_map(|item| plain_f16(item.try_into().unwrap())).collect(),
        DataType::Bf16 => chunks(2).flat_map(|item| plain_bf16(item.try_into().unwrap())).collect(),
        DataType::Fp32 => chunks(4).flat_map(|item| plain_f32(item.try_into().unwrap())).collect(),
        DataType::Fp64 => chunks(8).flat_map(|item| plain_f64(item.try_into().unwrap())).collect(),
        _ => bytes.to_vec(),
    })
}

fn plain_f16(item: [u8; 2]) -> [u8; 2] {
    let value = f16::from_le_bytes(item);
    if value.is_nan() {
        f16::from_f64(f64::NAN).to_le_bytes()
    } else {
        item
    }
}

fn plain_bf16(item: [u8; 2]) -> [u8; 2] {
    let value = bf16::from_le_bytes(item);
    if value.is_nan() {
        bf16::from_f64(f64::NAN).to_le_bytes()
    } else {
        item
    }
}

fn plain_f32(item: [u8; 4]) -> [u8; 4] {
    if f32::from_le_bytes(item).is_nan() {
        f32::NAN.to_le_bytes()
    } else {
        item
    }
}

fn plain_f64(item: [u8; 8]) -> [u8; 8] {
    if f64::from_le_bytes(item).is_nan() {
        f64::NAN.to_le_bytes()
    } else {
        item
    }
}
