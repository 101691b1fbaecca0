//! What is wrong with a request, and what the client is told.

use std::time::Duration;

use bytes::Bytes;
use charonia_wire::courier::Wakes;
use charonia_wire::grpc::messages::{
    InferRequestedOutput, InferTensorContents, ModelInferRequest, ParameterChoice, ParameterEntry,
};
use charonia_wire::inbox::Item;
use charonia_wire::options::Options;
use charonia_wire::status::Code as WireCode;
use prost::Message;
use tonic::Code;

use crate::framing::framed;
use crate::infer::parameter;
use crate::raw::Raw;
use crate::support::{raw_request, tensor, Running, SERVICE};

async fn refusal(request: ModelInferRequest) -> String {
    let server = Running::echo();
    let status = server.client().await.infer(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(server.client().await.infer(raw_request(1)).await.is_ok(), "the server lives");
    status.message().to_owned()
}

fn typed(contents: InferTensorContents, datatype: &str) -> ModelInferRequest {
    let mut request = raw_request(4);
    request.raw_input_contents.clear();
    datatype.clone_into(&mut request.inputs[0].datatype);
    request.inputs[0].contents = Some(Box::new(contents));
    request
}

#[tokio::test]
async fn fewer_raw_entries_than_inputs() {
    let mut request = raw_request(4);
    request.inputs.push(tensor("Y", "FP32", &[4]));
    assert_eq!(refusal(request).await, "unable to find data for input tensor 'Y' for model 'm' in request.");
}

#[tokio::test]
async fn more_raw_entries_than_inputs() {
    let mut request = raw_request(4);
    request.raw_input_contents.push(Bytes::from_static(b"abcd"));
    let told = refusal(request).await;
    assert!(told.contains("model 'm' has 2 entries in raw_input_contents, expected 1"), "{told}");
}

#[tokio::test]
async fn raw_and_typed_at_once() {
    let mut request = raw_request(4);
    request.inputs[0].contents = Some(Box::new(InferTensorContents::default()));
    let told = refusal(request).await;
    assert_eq!(told, "contents field must not be specified when using raw_input_contents for 'X' for model 'm'");
}

#[tokio::test]
async fn typed_contents_in_the_wrong_field() {
    let request = typed(InferTensorContents { int_contents: vec![1; 4], ..InferTensorContents::default() }, "INT64");
    assert_eq!(
        refusal(request).await,
        "unexpected explicit tensor data for input tensor 'X' for model 'm' of type 'INT32', expected datatype 'INT64'"
    );
}

#[tokio::test]
async fn wrong_sizes() {
    let told = refusal(typed(InferTensorContents { fp32_contents: vec![0.0; 3], ..Default::default() }, "FP32")).await;
    assert_eq!(told, "input byte size mismatch for input 'X' for model 'm'. Expected 16, got 12");
    let mut request = raw_request(4);
    request.inputs[0].shape = vec![5];
    assert!(refusal(request).await.contains("Expected 20, got 16"));
    let mut request = raw_request(4);
    request.inputs[0].shape = vec![-1, 4];
    assert!(refusal(request).await.contains("[-1,4]"));
    let mut request = raw_request(1);
    request.inputs[0].datatype = "BYTES".to_owned();
    request.raw_input_contents = vec![Bytes::from_static(b"\x09\0\0\0abc")];
    assert!(refusal(request).await.contains("incomplete string data for inference input 'X' for model 'm'"));
}

#[tokio::test]
async fn an_unknown_datatype() {
    let mut request = raw_request(4);
    request.inputs[0].datatype = "FP31".to_owned();
    let told = refusal(request).await;
    assert!(told.contains("input 'X' data-type is 'FP31'") && told.contains("model 'm'"), "{told}");
}

#[tokio::test]
async fn parameters_without_a_value_or_of_the_wrong_type() {
    let mut request = raw_request(4);
    request.parameters = vec![ParameterEntry { key: "p".to_owned(), value: None }];
    assert!(refusal(request).await.contains("invalid value type for 'p' parameter"));
    for (choice, expected) in [
        (ParameterChoice::String("3".to_owned()), "expected int64_param, got string_param"),
        (ParameterChoice::Int64(-1), "expected >= 0, got -1"),
    ] {
        let mut request = raw_request(4);
        let parameters = vec![parameter("classification", choice)];
        request.outputs = vec![InferRequestedOutput { name: "Y".to_owned(), parameters }];
        let told = refusal(request).await;
        assert!(told.contains("'classification' parameter of output 'Y'") && told.contains(expected), "{told}");
    }
}

#[tokio::test]
async fn shared_memory_inputs_have_no_data() {
    let server = Running::echo();
    let mut client = server.client().await;
    let mut request = raw_request(4);
    let mut shared = tensor("S", "FP32", &[1000]);
    shared.parameters = vec![parameter("shared_memory_region", ParameterChoice::String("r".to_owned()))];
    request.inputs.insert(0, shared);
    // The echo gives back what came, which no model may: an output whose bytes do not match its shape.
    let status = client.infer(request.clone()).await.unwrap_err();
    assert!(status.message().contains("does not match its shape"), "{status:?}");
    assert!(status.message().contains("it has 0 bytes"), "{status:?}");
    request.inputs[0].contents = Some(Box::new(InferTensorContents::default()));
    let status = client.infer(request).await.unwrap_err();
    assert!(status.message().contains("when using shared memory for input tensor 'S'"), "{status:?}");
}

#[tokio::test]
async fn a_place_in_shared_memory_needs_a_region() {
    let server = Running::echo();
    let mut client = server.client().await;
    for key in ["shared_memory_offset", "shared_memory_byte_size"] {
        let mut request = raw_request(4);
        request.inputs[0].parameters = vec![parameter(key, ParameterChoice::Int64(4))];
        let status = client.infer(request).await.unwrap_err();
        assert!(status.message().contains(&format!("'{key}' can not be specified without")), "{status:?}");
        let mut request = raw_request(4);
        let parameters = vec![parameter(key, ParameterChoice::Int64(4))];
        request.outputs = vec![InferRequestedOutput { name: "Y".to_owned(), parameters }];
        let status = client.infer(request).await.unwrap_err();
        assert!(status.message().contains("for tensor 'Y'"), "{status:?}");
    }
}

#[tokio::test]
async fn a_models_failure_keeps_its_code_and_message() {
    let server = Running::start(|item| {
        if let Item::Call(call) = item {
            call.fail(WireCode(call.request.parsed.id.parse().unwrap()), "50% of 'ü'\nfailed", &mut Wakes::default());
        }
    });
    let mut client = server.client().await;
    for code in [1, 2, 3, 4, 5, 6, 8, 12, 13, 14] {
        let status = client.infer(ModelInferRequest { id: code.to_string(), ..raw_request(1) }).await.unwrap_err();
        assert_eq!((i32::from(status.code()), status.message()), (code, "50% of 'ü'\nfailed"));
    }
}

#[tokio::test]
async fn a_lost_call_is_answered() {
    let server = Running::start(drop);
    let status = server.client().await.infer(raw_request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("'m'"));
    assert_eq!(server.server.wire.counters.dropped_calls.get(), 1);
}

#[tokio::test]
async fn a_deadline_cancels_the_call() {
    let (server, items) = Running::held();
    let message = framed(0, &raw_request(1).encode_to_vec());
    // No gRPC client here: it has a timer of its own.
    let raw = Raw::connect(&server).await;
    let answer = raw.post(&format!("{SERVICE}/ModelInfer"), &[("grpc-timeout", "1S")], vec![message]).await;
    assert_eq!(answer.trailer("grpc-status"), "4");
    let Ok(Item::Call(call)) = items.recv_timeout(Duration::from_secs(5)) else { panic!("the call comes first") };
    // The deadline counts from the head of the call, its arrival from the end of its message.
    assert!((1..=1_000_000_000).contains(&(call.request.deadline_ns - call.request.arrival_ns)));
    let Ok(Item::Cancelled(key)) = items.recv_timeout(Duration::from_secs(5)) else { panic!("then its cancellation") };
    assert_eq!(key, call.request.key);
    assert!(call.is_cancelled());
}

#[tokio::test]
async fn a_client_that_goes_cancels_the_call() {
    let (server, items) = Running::held();
    let mut client = server.client().await;
    let asking = tokio::spawn(async move { client.infer(raw_request(1)).await });
    let (call, items) = tokio::task::spawn_blocking(move || (items.recv().unwrap(), items)).await.unwrap();
    let Item::Call(call) = call else { panic!("a call was expected") };
    assert!(!call.is_cancelled());
    asking.abort();
    let item = tokio::task::spawn_blocking(move || items.recv_timeout(Duration::from_secs(5))).await.unwrap();
    assert!(matches!(item, Ok(Item::Cancelled(key)) if key == call.request.key));
    assert!(call.is_cancelled());
}

#[tokio::test]
async fn a_full_inbox_refuses() {
    let options = Options { inbox_max_calls: 0, ..Options::default() };
    let server = Running::with_options(options, drop);
    let status = server.client().await.infer(raw_request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}
