//! A short, seeded run of the fuzz targets: what is kept in `fuzz/corpus` and `fuzz/regressions` as it is, and
//! mutations of it. `make fuzz` looks for more, guided by coverage.

#[path = "../fuzz/src/targets/mod.rs"]
mod targets;

use std::fs;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use charonia_wire::grpc::decode::decode;
use charonia_wire::grpc::messages::{
    InferParameter, InferRequestedOutput, ModelInferRequest, ParameterChoice, ParameterEntry,
};
use charonia_wire::options::RequestLimits;
use charonia_wire::tensor::decode_request;
use prost::Message;

#[global_allocator]
static ALLOCATOR: targets::measure::Counting = targets::measure::Counting;

/// Memory and time are measured for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const MAX_INPUT_BYTES: usize = 4096;

/// Pieces that make sense to some decoder.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"\\u0000",
    b"\\ud83d",
    b"null",
    b"NaN",
    b"-",
    b"1e400",
    b"9223372036854775808",
    b"\"shape\":[0]",
    b"\"data\":[]",
    b"\"parameters\":{\"binary_data_size\":4}",
    b"BYTES",
    b"\0\0\0\0\x05",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x7f\xff\xff\xff",
    b"\x2a\x00",
    b"\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n",
];

macro_rules! targets {
    ($($name:ident: $times:literal,)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                drive(stringify!($name), $times);
            }
        )*
    };
}

// How often: all of them take a few seconds together, without optimisation.
targets! {
    answers: 2000,
    binary_parts: 3000,
    connection: 300,
    followed: 3000,
    grpc_frames: 2000,
    grpc_message: 4000,
    grpc_tensors: 3000,
    heads: 3000,
    http2_frames: 2000,
    http_body: 2000,
    inflate: 500,
    json_header: 6000,
}

#[test]
fn every_target_is_driven() {
    assert_eq!(NAMES, targets::ALL.map(|(name, _)| name));
}

/// Too large for a mutator: each parameter was compared with all those before it.
#[test]
fn many_parameters_take_little_time() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let key = |number: usize| format!("parameter_{number:06}");
    let repeated = (0..100_000).map(|number| format!(r#""{}":1"#, key(number.min(4095)))).collect::<Vec<_>>().join(",");
    let json = Bytes::from(format!(r#"{{"parameters":{{{repeated}}},"inputs":[]}}"#));
    let (size, limits) = (json.len(), RequestLimits::default());
    let call = targets::measure::bounded(size, || decode_request("m", "", &json, size, limits));
    assert_eq!((call.defect, call.parameters.len()), (None, 4096));

    let value = InferParameter { choice: Some(ParameterChoice::Int64(1)) };
    let entry = |number| ParameterEntry { key: key(number), value: Some(value.clone()) };
    let output = InferRequestedOutput { parameters: (0..4096).map(entry).collect(), ..Default::default() };
    let message = ModelInferRequest { outputs: vec![output; 40], ..Default::default() }.encode_to_vec();
    let growth = 16 * message.len();
    let call = targets::measure::bounded(growth, || decode(message.into(), limits)).unwrap();
    assert_eq!((call.defect, call.outputs[39].parameters.len()), (None, 4096));
}

fn drive(name: &str, times: u64) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = targets::by_name(name).unwrap();
    let kept = kept(name);
    assert!(!kept.is_empty(), "a target needs inputs to begin with");
    for (path, input) in &kept {
        run(target, input, &path.display().to_string());
    }
    let mut chance = Chance(name.len() as u64);
    for round in 0..times {
        let mut input = kept[chance.below(kept.len())].1.clone();
        for _ in 0..=chance.below(4) {
            mutate(&mut input, &kept[chance.below(kept.len())].1, &mut chance);
        }
        input.truncate(MAX_INPUT_BYTES);
        run(target, &input, &format!("round {round}"));
    }
}

/// A panic shows the input, to be kept in `fuzz/regressions`.
fn run(target: targets::Target, input: &[u8], origin: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("the input of {origin}: b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

/// The inputs of a target, always in the same order.
fn kept(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let folders = ["corpus", "regressions"].map(|folder| home.join(folder).join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn mutate(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let end = (at + 1 + chance.below(16)).min(input.len());
    match chance.below(7) {
        0 if at < input.len() => input[at] = chance.byte(),
        1 if at < input.len() => input[at] ^= 1 << chance.below(8),
        2 => drop(input.drain(at..end)),
        3 => {
            let part = input[at..end].repeat(1 + chance.below(4));
            input.splice(at..at, part);
        }
        4 => drop(input.splice(at..at, WORDS[chance.below(WORDS.len())].iter().copied())),
        5 => {
            input.truncate(at);
            input.extend_from_slice(&other[chance.below(other.len() + 1)..]);
        }
        _ => input.insert(at, chance.byte()),
    }
}

/// The generator `SplitMix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
