//! `ModelInfer`: tensors and parameters both ways.

use std::time::Duration;

use bytes::Bytes;
use charonia_wire::call::{Parameter, Protocol};
use charonia_wire::courier::Wakes;
use charonia_wire::grpc::messages::{
    InferParameter, InferRequestedOutput, InferTensorContents, ModelInferRequest, ParameterChoice, ParameterEntry,
};
use charonia_wire::inbox::Item;
use tonic::codec::CompressionEncoding;

use crate::support::{echo, raw_request, tensor, Client, Running};

pub fn parameter(key: &str, choice: ParameterChoice) -> ParameterEntry {
    ParameterEntry { key: key.to_owned(), value: Some(InferParameter { choice: Some(choice) }) }
}

#[tokio::test]
async fn raw_tensors_come_back_as_they_were() {
    let server = Running::echo();
    let mut client = server.client().await;
    for elements in [0, 1, 16, 2047, 2048, 2049, 100_000, 3_000_000] {
        let request = raw_request(elements);
        let answer = client.infer(request.clone()).await.unwrap();
        assert_eq!((answer.model_name.as_str(), answer.model_version.as_str(), answer.id.as_str()), ("m", "1", "7"));
        assert_eq!(answer.outputs, request.inputs);
        assert!(answer.raw_output_contents == request.raw_input_contents, "{elements} elements");
    }
}

#[tokio::test]
async fn small_and_large_tensors_keep_their_order() {
    let server = Running::echo();
    let mut client = server.client().await;
    let sizes = [40_000, 1, 9_000, 0, 8192, 70_000, 2];
    let shape = |size: usize| [i64::try_from(size).unwrap()];
    let inputs = sizes.iter().enumerate().map(|(at, &size)| tensor(&format!("I{at}"), "UINT8", &shape(size)));
    let raw = sizes.iter().enumerate().map(|(at, &size)| Bytes::from(vec![u8::try_from(at).unwrap(); size]));
    let request = ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: inputs.collect(),
        raw_input_contents: raw.collect(),
        ..ModelInferRequest::default()
    };
    let answer = client.infer(request.clone()).await.unwrap();
    assert_eq!(answer.outputs, request.inputs);
    assert!(answer.raw_output_contents == request.raw_input_contents);
}

#[tokio::test]
async fn typed_contents_become_bytes() {
    let server = Running::echo();
    let mut client = server.client().await;
    let mut request = raw_request(0);
    request.raw_input_contents.clear();
    let mut ints = tensor("A", "INT8", &[2]);
    ints.contents = Some(Box::new(InferTensorContents { int_contents: vec![-1, 5], ..InferTensorContents::default() }));
    let mut text = tensor("B", "BYTES", &[1]);
    let elements = vec![Bytes::from_static(b"ab")];
    text.contents = Some(Box::new(InferTensorContents { bytes_contents: elements, ..InferTensorContents::default() }));
    request.inputs = vec![ints, text];
    let answer = client.infer(request).await.unwrap();
    assert_eq!(answer.raw_output_contents, [&b"\xff\x05"[..], &b"\x02\0\0\0ab"[..]]);
}

#[tokio::test]
async fn parameters_keep_their_types() {
    let server = Running::echo();
    let mut client = server.client().await;
    let mut request = raw_request(1);
    request.parameters = vec![
        parameter("bool", ParameterChoice::Bool(false)),
        parameter("int", ParameterChoice::Int64(-3)),
        parameter("text", ParameterChoice::String(String::new())),
        parameter("double", ParameterChoice::Double(0.0)),
        parameter("uint", ParameterChoice::Uint64(u64::MAX)),
    ];
    let answer = client.infer(request.clone()).await.unwrap();
    assert_eq!(answer.parameters, request.parameters);
}

#[tokio::test]
async fn the_call_carries_everything_that_was_asked() {
    let (server, calls) = Running::held();
    let mut client = server.client().await;
    let mut request = raw_request(4);
    request.model_version = "01".to_owned();
    request.inputs[0].shape = vec![2, 2];
    request.inputs[0].parameters = vec![parameter("p", ParameterChoice::Int64(1))];
    request.outputs = vec![
        InferRequestedOutput {
            name: "Y".to_owned(),
            parameters: vec![
                parameter("classification", ParameterChoice::Int64(3)),
                parameter("q", ParameterChoice::Bool(true)),
            ],
        },
        InferRequestedOutput { name: "Z".to_owned(), parameters: vec![] },
    ];
    let mut request = tonic::Request::new(request);
    request.metadata_mut().insert("x-who", "me".parse().unwrap());
    let path = format!("{}/ModelInfer", crate::support::SERVICE);
    let asking =
        tokio::spawn(async move { client.call::<_, crate::support::ModelInferResponse>(&path, request).await });
    let Item::Call(call) = tokio::task::spawn_blocking(move || calls.recv().unwrap()).await.unwrap() else {
        panic!("a call was expected");
    };
    {
        let asked = &call.request;
        assert_eq!(asked.protocol, Protocol::Grpc);
        assert_eq!((asked.deadline_ns, asked.batch_dim), (0, 2));
        assert!(asked.arrival_ns > 0);
        assert_eq!(asked.headers.get("x-who").unwrap(), "me");
        let parsed = &asked.parsed;
        assert_eq!(parsed.defect, None);
        assert_eq!((parsed.model_name.as_str(), parsed.model_version.as_str(), parsed.id.as_str()), ("m", "01", "7"));
        assert_eq!(parsed.inputs[0].parameters, [("p".to_owned(), Parameter::Int(1))]);
        assert_eq!(parsed.inputs[0].data.as_ptr().addr() % 4, 0);
        assert_eq!((parsed.outputs[0].name.as_str(), parsed.outputs[0].classification), ("Y", 3));
        assert_eq!(parsed.outputs[0].parameters, [("q".to_owned(), Parameter::Bool(true))]);
        assert_eq!((parsed.outputs[1].name.as_str(), parsed.outputs[1].classification), ("Z", 0));
    }
    call.reply(echo(&call), &mut Wakes::default());
    assert!(asking.await.unwrap().is_ok());
}

#[tokio::test]
async fn many_calls_share_a_connection() {
    let server = Running::echo();
    let client = server.client().await;
    let asking: Vec<_> = (0..200)
        .map(|index: usize| {
            let mut client = Client(client.0.clone());
            tokio::spawn(async move {
                let mut request = raw_request(index);
                request.id = index.to_string();
                let answer = client.infer(request).await.unwrap();
                assert_eq!(answer.id, index.to_string());
                assert_eq!(answer.raw_output_contents[0].len(), index * 4);
            })
        })
        .collect();
    for one in asking {
        one.await.unwrap();
    }
    assert_eq!(server.server.wire.counters.infer_calls.get(), 200);
    assert_eq!(server.server.wire.counters.unsettled_calls.get(), 0);
}

#[tokio::test]
async fn a_compressed_request_gets_a_compressed_answer() {
    let server = Running::echo();
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Deflate] {
        let client = server.client().await;
        let mut client = Client(client.0.send_compressed(encoding).accept_compressed(encoding));
        for elements in [16, 50_000] {
            let request = raw_request(elements);
            let answer = client.infer(request.clone()).await.unwrap();
            assert!(answer.raw_output_contents == request.raw_input_contents, "{encoding:?} {elements}");
        }
    }
}

/// One client asks for large and small things in turn; what is large takes its time to be inflated.
#[tokio::test]
async fn calls_of_one_connection_arrive_in_the_order_in_which_they_were_sent() {
    let (server, items) = Running::held();
    let client = server.client().await;
    let count = 60;
    for number in 0..count {
        let mut client = Client(client.0.clone().send_compressed(CompressionEncoding::Gzip));
        let elements = if number % 3 == 0 { 50_000 } else { 1 };
        let mut asked = raw_request(elements);
        asked.id = number.to_string();
        tokio::spawn(async move { client.infer(asked).await });
        tokio::task::yield_now().await;
    }
    let taken = tokio::task::spawn_blocking(move || {
        let ids = (0..count).map(|_| match items.recv_timeout(Duration::from_secs(20)) {
            Ok(Item::Call(call)) => call.request.parsed.id.parse::<usize>().unwrap(),
            _ => panic!("a call was expected"),
        });
        ids.collect::<Vec<_>>()
    });
    assert_eq!(taken.await.unwrap(), (0..count).collect::<Vec<_>>());
}
