//! Who gets an answer that lies on a shelf, and who does not.

use bytes::Bytes;

use super::*;
use crate::call::{Arrival, Call, InputTensor, RequestedOutput};
use crate::courier::Wakes;
use crate::datatype::DataType;
use crate::inbox::Inbox;
use crate::reply::{Failure, OutputTensor, Reply, ReplySink};
use crate::status::Code;

struct Nowhere;

impl ReplySink for Nowhere {
    fn send(&self, _: &Request, _: Reply, _: &mut Wakes) {}
}

fn input(name: &str, shape: &[i64], data: &'static [u8]) -> InputTensor {
    let (name, shape, data) = (name.to_owned(), shape.to_vec(), Bytes::from_static(data));
    InputTensor { name, datatype: DataType::Uint8, shape, data, parameters: Vec::new() }
}

fn requested(name: &str) -> RequestedOutput {
    RequestedOutput { name: name.to_owned(), binary: true, ..RequestedOutput::default() }
}

fn plain() -> ParsedCall {
    ParsedCall {
        model_name: "m".to_owned(),
        model_version: "1".to_owned(),
        inputs: vec![input("A", &[2], b"12"), input("B", &[1], b"3")],
        outputs: vec![requested("O")],
        ..ParsedCall::default()
    }
}

fn request(parsed: ParsedCall, protocol: Protocol) -> Arc<Request> {
    let headers = http::HeaderMap::new();
    let arrival = Arrival { protocol, begun_ns: 0, arrival_ns: 1, deadline_ns: 0, headers, permit: None };
    let inbox = Inbox::new(8, Arc::default());
    Arc::clone(&Call::new(parsed, arrival, Box::new(Nowhere), &inbox).request)
}

fn find(shelf: &Shelf, parsed: ParsedCall) -> Option<Response> {
    shelf.find(&request(parsed, Protocol::Grpc))
}

fn answer(bytes: usize) -> Response {
    let data = Bytes::from(vec![7; bytes]);
    let shape = vec![i64::try_from(bytes).unwrap()];
    let output = OutputTensor { name: "O".to_owned(), datatype: DataType::Uint8, shape, data, is_elsewhere: false };
    Response { outputs: vec![output], is_final: true, ..Response::default() }
}

#[test]
fn calls_that_say_the_same_get_it_until_it_is_taken_away() {
    let shelf = Arc::new(Shelf::default());
    let kept = shelf.keep(&plain(), answer(3)).expect("plain");
    let with_id = ParsedCall { id: "other".to_owned(), ..plain() };
    let streamable =
        ParsedCall { parameters: vec![(EMPTY_FINAL_PARAMETER.to_owned(), Parameter::Bool(true))], ..plain() };
    for same in [plain(), with_id, streamable] {
        assert_eq!(find(&shelf, same).expect("there").outputs[0].data.len(), 3);
    }
    drop(kept);
    assert!(find(&shelf, plain()).is_none());
    assert!(shelf.keep(&plain(), answer(1)).is_some(), "there is room again");
}

#[test]
fn nobody_else_gets_it() {
    type Change = fn(&mut ParsedCall);
    let changes: [(&str, Change); 18] = [
        ("model", |call| call.model_name = "n".to_owned()),
        ("version", |call| call.model_version = String::new()),
        ("a byte", |call| call.inputs[0].data = Bytes::from_static(b"13")),
        ("where one input ends", |call| {
            call.inputs[0].data = Bytes::from_static(b"1");
            call.inputs[1].data = Bytes::from_static(b"23");
        }),
        ("shape", |call| call.inputs[0].shape = vec![1, 2]),
        ("datatype", |call| call.inputs[0].datatype = DataType::Int8),
        ("name of an input", |call| call.inputs[0].name = "C".to_owned()),
        ("order of inputs", |call| call.inputs.reverse()),
        ("one input less", |call| drop(call.inputs.pop())),
        ("no outputs asked for", |call| call.outputs.clear()),
        ("another output", |call| call.outputs = vec![requested("P")]),
        ("classes", |call| call.outputs[0].classification = 1),
        ("parameters", |call| call.parameters.push(("p".to_owned(), Parameter::Int(1)))),
        ("a parameter of the wrong type", |call| {
            call.parameters.push((EMPTY_FINAL_PARAMETER.to_owned(), Parameter::Int(1)));
        }),
        ("an input elsewhere", |call| call.inputs[0].parameters.push(("p".to_owned(), Parameter::Int(1)))),
        ("an output elsewhere", |call| call.outputs[0].parameters.push(("p".to_owned(), Parameter::Int(1)))),
        ("headers that go along", |call| call.forwarded.push(("h".to_owned(), "v".to_owned()))),
        ("a defect", |call| call.defect = Some(Failure::new(Code::INVALID_ARGUMENT, "no"))),
    ];
    let shelf = Arc::new(Shelf::default());
    let _kept = shelf.keep(&plain(), answer(3)).expect("plain");
    for (what, change) in changes {
        let mut other = plain();
        change(&mut other);
        assert!(find(&shelf, other).is_none(), "{what}");
    }
    assert!(find(&shelf, ParsedCall { raw: true, ..plain() }).is_none());
    assert!(find(&shelf, plain()).is_some());
}

#[test]
fn one_call_has_one_answer() {
    let shelf = Arc::new(Shelf::default());
    let _kept = shelf.keep(&plain(), answer(3));
    assert!(shelf.keep(&plain(), answer(4)).is_none());
    assert_eq!(find(&shelf, plain()).expect("there").outputs[0].data.len(), 3);
}

#[test]
fn what_takes_long_is_left_to_others() {
    let shelf = Arc::new(Shelf::default());
    let mut large = plain();
    large.inputs[0].data = Bytes::from(vec![0; MAX_BYTES]);
    assert!(shelf.keep(&large, answer(3)).is_none(), "to be hashed");
    assert!(shelf.keep(&plain(), answer(MAX_BYTES + 1)).is_none(), "to be written");
    let _kept = shelf.keep(&plain(), answer(MAX_JSON_BYTES + 1)).expect("plain");
    let json = |binary| {
        let mut parsed = plain();
        parsed.outputs[0].binary = binary;
        shelf.find(&request(parsed, Protocol::Http)).is_some()
    };
    assert!(!json(false), "to be written as JSON");
    assert!(json(true));
    assert!(find(&shelf, plain()).is_some());
}

#[test]
fn what_is_given_is_counted_once() {
    let shelf = Arc::new(Shelf::default());
    let kept = shelf.keep(&plain(), answer(3)).expect("plain");
    assert!(!kept.take_used());
    for _ in 0..3 {
        find(&shelf, plain());
    }
    find(&shelf, ParsedCall::default());
    assert!(kept.take_used() && !kept.take_used());
    let given = shelf.take_given();
    assert_eq!(given.iter().map(|class| class.count).sum::<u64>(), 3);
    assert!(given.iter().all(|class| class.total_ns >= class.lookup_ns && class.lookup_ns > 0));
    assert_eq!(shelf.take_given(), []);
}
