//! Health, readiness and reflection: answered without anybody taking calls.

use std::time::{Duration, Instant};

use bytes::Bytes;
use charonia_wire::grpc::messages::{Flag, HealthCheckRequest, HealthCheckResponse, ModelReadyRequest, ServingStatus};
use charonia_wire::options::Options;
use charonia_wire::table::Published;
use tokio_stream::StreamExt;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::Code;
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::ServerReflectionRequest;

use crate::support::{raw_request, Client, Running, SERVICE};

async fn flag(client: &mut Client, method: &str) -> bool {
    let answer: Flag = client.unary(&format!("{SERVICE}/{method}"), HealthCheckRequest::default()).await.unwrap();
    answer.value
}

async fn model_ready(client: &mut Client, name: &str, version: &str) -> Result<bool, tonic::Status> {
    let request = ModelReadyRequest { name: name.to_owned(), version: version.to_owned() };
    client.unary(&format!("{SERVICE}/ModelReady"), request).await.map(|flag: Flag| flag.value)
}

#[tokio::test]
async fn liveness_and_readiness_follow_the_table() {
    let server = Running::echo();
    let mut client = server.client().await;
    assert!(flag(&mut client, "ServerLive").await);
    assert!(flag(&mut client, "ServerReady").await);
    server.server.wire.table.publish(Published::new(true, false, []));
    assert!(flag(&mut client, "ServerLive").await);
    assert!(!flag(&mut client, "ServerReady").await);
}

#[tokio::test]
async fn model_ready_is_ok_for_unknown_models() {
    let server = Running::echo();
    let mut client = server.client().await;
    let cases = [("m", "", true), ("m", "1", true), ("m", "01", true), ("m", "2", false)];
    for (name, version, expected) in cases.into_iter().chain([("loading", "", false), ("nope", "", false)]) {
        assert_eq!(model_ready(&mut client, name, version).await.unwrap(), expected, "{name} {version}");
    }
    for version in ["abc", "-1"] {
        let status = model_ready(&mut client, "m", version).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(&format!("'{version}'")));
    }
}

#[tokio::test]
async fn what_is_no_inference_may_be_answered_late() {
    let late = |grpc_answer_delay_ms| Options { grpc_answer_delay_ms, ..Options::default() };
    let server = Running::echo_with(late(3_600_000));
    let (mut asking, mut inferring) = (server.client().await, server.client().await);
    tokio::select! {
        live = flag(&mut asking, "ServerLive") => panic!("{live} at once"),
        answer = inferring.infer(raw_request(1)) => assert!(answer.is_ok()),
    }
    let server = Running::with_options(late(20), drop);
    let mut client = server.client().await;
    let asked = Instant::now();
    assert!(flag(&mut client, "ServerLive").await);
    assert!(asked.elapsed() >= Duration::from_millis(20));
}

#[tokio::test]
async fn the_standard_health_service() {
    let server = Running::echo();
    let mut client = server.client().await;
    let ask = HealthCheckRequest::default();
    let path = "/grpc.health.v1.Health/Check";
    let answer: HealthCheckResponse = client.unary(path, ask.clone()).await.unwrap();
    assert_eq!(answer.status(), ServingStatus::Serving);

    client.0.ready().await.unwrap();
    let watch = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let watching = client.0.server_streaming(tonic::Request::new(ask), watch, ProstCodec::default()).await;
    let mut states = watching.unwrap().into_inner();
    let mut next = async || -> HealthCheckResponse { states.next().await.unwrap().unwrap() };
    assert_eq!(next().await.status(), ServingStatus::Serving);
    server.server.wire.table.publish(Published::new(true, false, []));
    assert_eq!(next().await.status(), ServingStatus::NotServing);
    server.server.wire.table.publish(Published::new(true, true, []));
    assert_eq!(next().await.status(), ServingStatus::Serving);
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let set = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/charonia/config/proto/descriptors.binpb");
    let file_descriptor_set = Bytes::from(std::fs::read(set).unwrap());
    let server = Running::with_options(Options { file_descriptor_set, ..Options::default() }, drop);
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut client = ServerReflectionClient::new(channel.connect().await.unwrap());
    let ask = |message_request| ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
    let requests = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("inference.ModelConfig".to_owned())),
    ]);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let first = answers.next().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = first else { panic!("{first:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"inference.GRPCInferenceService") && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let second = answers.next().await.unwrap().unwrap().message_response.unwrap();
    assert!(matches!(second, MessageResponse::FileDescriptorResponse(_)), "{second:?}");
}
