//! How long the codecs take: `cargo bench -p charonia-wire --bench tensor`.
//!
//! Prints the best of several rounds, in nanoseconds per call and per element, and `serde_json`'s time for the same text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use charonia_wire::call::ParsedCall;
use charonia_wire::datatype::DataType;
use charonia_wire::options::RequestLimits;
use charonia_wire::reply::{OutputTensor, Response};
use charonia_wire::tensor::{decode_request, encode_response};

/// Rounds are short and many, so that on a busy machine some run undisturbed.
const ROUND: Duration = Duration::from_micros(50);
const ALL_ROUNDS: Duration = Duration::from_millis(400);

/// Nanoseconds per call in the best round.
fn best_ns(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed() < ALL_ROUNDS {
        let start = Instant::now();
        let mut calls = 0_u32;
        while start.elapsed() < ROUND {
            work();
            calls += 1;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    best
}

fn report(what: &str, elements: u32, ns: f64) {
    println!("{what:<44} {ns:>14.0} ns {:>9.2} ns/element", ns / f64::from(elements));
}

/// Values in [0, 1) with as many digits as FP32 has.
fn fp32_values(count: u32) -> Vec<f32> {
    let fraction = |index: u32| f64::from(index.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX);
    #[allow(clippy::cast_possible_truncation)]
    (0..count).map(|index| fraction(index) as f32).collect()
}

fn request(datatype: &str, inputs: u32, count: u32, data: &str) -> Bytes {
    let input =
        |index| format!(r#"{{"name":"INPUT{index}","shape":[1,{count}],"datatype":"{datatype}","data":[{data}]}}"#);
    let inputs: Vec<String> = (0..inputs).map(input).collect();
    format!(r#"{{"id":"1","inputs":[{}]}}"#, inputs.join(",")).into()
}

fn bench_decode(what: &str, elements: u32, body: &Bytes) {
    let decode = || decode_request("m", "", black_box(body), body.len(), RequestLimits::default());
    assert_eq!(decode().defect, None);
    report(&format!("decode {what}"), elements, best_ns(|| drop(black_box(decode()))));
    let serde = || serde_json::from_slice::<serde_json::Value>(black_box(body));
    report(&format!("  serde_json::Value, {what}"), elements, best_ns(|| drop(black_box(serde()))));
}

fn bench_encode(what: &str, datatype: DataType, elements: u32, data: &Bytes, binary_default: bool) {
    let output = |name: &str| OutputTensor {
        name: name.to_owned(),
        datatype,
        shape: vec![1, i64::from(elements)],
        data: data.clone(),
        is_elsewhere: false,
    };
    let outputs = vec![output("OUTPUT0"), output("OUTPUT1")];
    let names = ("addsub".to_owned(), "1".to_owned());
    let response = Response { model_name: names.0, model_version: names.1, outputs, ..Response::default() };
    let request = ParsedCall { binary_default, ..ParsedCall::default() };
    let encode = || encode_response(black_box(&request), black_box(&response)).expect("a whole output");
    report(&format!("encode 2 x {what}"), 2 * elements, best_ns(|| drop(black_box(encode()))));
}

fn main() {
    const SMALL: u32 = 16;
    const LARGE: u32 = 1_000_000;
    let join = |texts: Vec<String>| texts.join(",");
    for count in [SMALL, LARGE] {
        let values = fp32_values(count);
        let shortest = join(values.iter().map(ToString::to_string).collect());
        let widened = join(values.iter().map(|&value| f64::from(value).to_string()).collect());
        let whole = join((0..count).map(|index| index.to_string()).collect());
        let strings = join((0..count).map(|index| format!("\"string {index}\"")).collect());
        bench_decode(&format!("FP32 0.12345678 x {count}"), count, &request("FP32", 1, count, &shortest));
        bench_decode(&format!("FP32 0.123456784 (17 digits) x {count}"), count, &request("FP32", 1, count, &widened));
        bench_decode(&format!("INT32 x {count}"), count, &request("INT32", 1, count, &whole));
        bench_decode(&format!("BYTES x {count}"), count, &request("BYTES", 1, count, &strings));
        let floats = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Bytes>();
        let wholes = (0..u16::MAX).cycle().take(count as usize);
        let integral = wholes.flat_map(|item| f32::from(item).to_le_bytes()).collect::<Bytes>();
        let integers = (0..count).flat_map(u32::to_le_bytes).collect::<Bytes>();
        bench_encode(&format!("FP32 fractions x {count}"), DataType::Fp32, count, &floats, false);
        bench_encode(&format!("FP32 whole numbers x {count}"), DataType::Fp32, count, &integral, false);
        bench_encode(&format!("INT32 x {count}"), DataType::Int32, count, &integers, false);
        bench_encode(&format!("FP32 binary x {count}"), DataType::Fp32, count, &floats, true);
    }
    let whole = join((0..SMALL).map(|index| index.to_string()).collect());
    bench_decode("addsub: 2 x FP32[16], whole numbers", 2 * SMALL, &request("FP32", 2, SMALL, &whole));
}
