//! Methods that Python answers, and methods that nobody does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::control::{ControlCall, RpcCall};
use charonia_wire::grpc::messages::{Flag, ModelReadyRequest};
use charonia_wire::reply::Failure;
use charonia_wire::status::Code as WireCode;
use charonia_wire::table::Published;
use charonia_wire::wire::Wire;
use prost::Message;
use tonic::{Code, Status};

use crate::support::{Running, SERVICE};

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The next control call, which must be an RPC.
fn take(wire: &Wire) -> RpcCall {
    let ControlCall::Rpc(call) = wire.control.take(1, Duration::from_secs(5)).0.pop().expect("a call") else {
        panic!("an RPC was expected")
    };
    call
}

/// Ask while `answer` deals with the control call.
async fn ask(method: &str, answer: impl FnOnce(RpcCall) + Send + 'static) -> Result<Flag, Status> {
    let server = Running::echo();
    let wire = Arc::clone(&server.server.wire);
    let answering = tokio::task::spawn_blocking(move || answer(take(&wire)));
    let request = ModelReadyRequest { name: "m".to_owned(), version: String::new() };
    let outcome = server.client().await.unary(&format!("{SERVICE}/{method}"), request).await;
    answering.await.unwrap();
    outcome
}

#[tokio::test]
async fn the_message_and_the_answer_pass_through() {
    let outcome = ask("ModelConfig", |call| {
        assert_eq!(call.path, "/inference.GRPCInferenceService/ModelConfig");
        assert_eq!(ModelReadyRequest::decode(call.message.clone()).unwrap().name, "m");
        assert!(call.metadata.contains_key("content-type"));
        call.answer(Ok(Flag { value: true }.encode_to_vec().into()));
    });
    assert!(outcome.await.unwrap().value);
}

#[tokio::test]
async fn readiness_is_asked_for_where_the_table_says_so() {
    let server = Running::echo();
    server.server.wire.table.publish(Published::new(true, true, []).asking(true));
    let mut client = server.client().await;
    for path in
        ["ServerReady", "ModelReady"].map(|name| format!("{SERVICE}/{name}")).into_iter().chain([CHECK.to_owned()])
    {
        let wire = Arc::clone(&server.server.wire);
        let answering = tokio::task::spawn_blocking(move || {
            let call = take(&wire);
            let path = call.path.clone();
            call.answer(Ok(Flag { value: false }.encode_to_vec().into()));
            path
        });
        let answer: Flag = client.unary(&path, Flag::default()).await.unwrap();
        assert!(!answer.value);
        assert_eq!(answering.await.unwrap(), path);
    }
    let live: Flag = client.unary(&format!("{SERVICE}/ServerLive"), Flag::default()).await.unwrap();
    assert!(live.value);
}

#[tokio::test]
async fn a_large_answer_passes_too() {
    let server = Running::echo();
    let wire = Arc::clone(&server.server.wire);
    std::thread::spawn(move || {
        let large = ModelReadyRequest { name: "x".repeat(1 << 20), version: String::new() };
        take(&wire).answer(Ok(large.encode_to_vec().into()));
    });
    let answer: ModelReadyRequest =
        server.client().await.unary(&format!("{SERVICE}/ServerMetadata"), Flag::default()).await.unwrap();
    assert_eq!(answer.name.len(), 1 << 20);
}

#[tokio::test]
async fn failures_pass_through() {
    let status = ask("RepositoryModelLoad", |call| {
        call.answer(Err(Failure::new(WireCode::UNIMPLEMENTED, "not yet")));
    });
    let status = status.await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unimplemented, "not yet"));
}

#[tokio::test]
async fn a_dropped_call_is_answered() {
    let status = ask("TraceSetting", drop).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("TraceSetting"));
}

#[tokio::test]
async fn other_services_are_unimplemented() {
    let server = Running::echo();
    for path in ["/nobody.Service/Method", "/inference.GRPCInferenceService", "/"] {
        let status = server.client().await.unary::<_, Flag>(path, Flag::default()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_told_that_it_is_wrong_here() {
    let server = Running::echo();
    let status = crate::raw::Raw::connect(&server).await.get("/v2/health/live").await;
    assert_eq!(status, 415);
}

#[tokio::test]
async fn a_message_without_bytes_is_a_message() {
    let outcome = ask("ServerMetadata", |call| {
        call.answer(Ok(Bytes::new()));
    });
    assert!(!outcome.await.unwrap().value);
}
