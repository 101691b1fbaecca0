//! `ModelStreamInfer`: many requests, many answers, one stream.

use std::time::Duration;

use charonia_wire::call::Protocol;
use charonia_wire::courier::Wakes;
use charonia_wire::grpc::messages::{ModelInferRequest, ParameterChoice};
use charonia_wire::inbox::Item;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::StreamExt;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::support::{echo, raw_request, Client, ModelStreamInferResponse, Running, SERVICE};

pub type Answers = Streaming<ModelStreamInferResponse>;

pub async fn open(
    client: &mut Client,
    requests: mpsc::Receiver<ModelInferRequest>,
    metadata: &[(&'static str, &'static str)],
) -> Result<Answers, Status> {
    client.0.ready().await.unwrap();
    let path = PathAndQuery::try_from(format!("{SERVICE}/ModelStreamInfer")).unwrap();
    let mut request = tonic::Request::new(ReceiverStream::new(requests));
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    client.0.streaming(request, path, ProstCodec::default()).await.map(tonic::Response::into_inner)
}

pub fn request(id: &str) -> ModelInferRequest {
    ModelInferRequest { id: id.to_owned(), ..raw_request(2) }
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests() {
    let mut held = Vec::new();
    // Answers in groups of three, backwards.
    let server = Running::start(move |item| {
        let Item::Call(call) = item else { return };
        assert_eq!(call.request.protocol, Protocol::GrpcStream);
        held.push(call);
        if held.len() == 3 {
            held.drain(..).rev().for_each(|call| assert!(call.reply(echo(&call), &mut Wakes::default())));
        }
    });
    let (sender, receiver) = mpsc::channel(4);
    let mut answers = open(&mut server.client().await, receiver, &[]).await.unwrap();
    for id in ["1", "2", "3", "4", "5", "6"] {
        sender.send(request(id)).await.unwrap();
    }
    for id in ["1", "2", "3", "4", "5", "6"] {
        let answer = answers.next().await.unwrap().unwrap();
        assert_eq!(answer.error_message, "");
        let response = answer.infer_response.unwrap();
        assert_eq!(response.id, id);
        assert_eq!(response.raw_output_contents, raw_request(2).raw_input_contents);
        let last = response.parameters.iter().find(|entry| entry.key == "triton_final_response").unwrap();
        assert_eq!(last.value.clone().unwrap().choice, Some(ParameterChoice::Bool(true)));
    }
    drop(sender);
    assert!(answers.next().await.is_none(), "the stream ends with OK");
}

#[tokio::test]
async fn an_error_is_a_message_and_the_stream_goes_on() {
    let server = Running::echo();
    let (sender, receiver) = mpsc::channel(4);
    let mut answers = open(&mut server.client().await, receiver, &[]).await.unwrap();
    let mut wrong = request("bad");
    wrong.raw_input_contents.clear();
    sender.send(wrong).await.unwrap();
    sender.send(request("good")).await.unwrap();
    drop(sender);
    let failed = answers.next().await.unwrap().unwrap();
    assert_eq!(failed.error_message, "unable to find data for input tensor 'X' for model 'm' in request.");
    let response = failed.infer_response.unwrap();
    assert_eq!((response.id.as_str(), response.model_name.as_str()), ("bad", ""));
    let good = answers.next().await.unwrap().unwrap();
    assert_eq!(good.infer_response.unwrap().id, "good");
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn large_answers_are_streamed() {
    let server = Running::echo();
    let (sender, receiver) = mpsc::channel(4);
    let mut answers = open(&mut server.client().await, receiver, &[]).await.unwrap();
    let request = raw_request(1 << 20);
    let sending = tokio::spawn({
        let request = request.clone();
        async move {
            for _ in 0..5 {
                sender.send(request.clone()).await.unwrap();
            }
        }
    });
    for _ in 0..5 {
        // The client's default limit of a message is 4 MiB, so it is asked for less than that.
        let answer = answers.next().await.unwrap().unwrap();
        assert!(answer.infer_response.unwrap().raw_output_contents == request.raw_input_contents);
    }
    sending.await.unwrap();
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_client_that_goes_cancels_all_its_calls() {
    let (server, items) = Running::held();
    let mut client = server.client().await;
    let (sender, receiver) = mpsc::channel(4);
    let asking = tokio::spawn(async move {
        let answers = open(&mut client, receiver, &[]).await;
        std::future::pending::<()>().await;
        drop(answers);
    });
    sender.send(request("1")).await.unwrap();
    sender.send(request("2")).await.unwrap();
    let (taken, items) = tokio::task::spawn_blocking(move || ([items.recv(), items.recv()], items)).await.unwrap();
    asking.abort();
    // This client resets a stream only when both of its halves are gone.
    drop(sender);
    let wait = move || [(); 2].map(|()| items.recv_timeout(Duration::from_secs(5)));
    let mut cancelled = tokio::task::spawn_blocking(wait).await.unwrap().into_iter();
    for item in taken {
        let Ok(Item::Call(call)) = item else { panic!("a call was expected") };
        assert!(matches!(cancelled.next(), Some(Ok(Item::Cancelled(_)))));
        assert!(call.is_cancelled());
    }
}

#[tokio::test]
async fn a_draining_server_ends_idle_streams() {
    let server = Running::echo();
    let (sender, receiver) = mpsc::channel(4);
    let mut answers = open(&mut server.client().await, receiver, &[]).await.unwrap();
    sender.send(request("1")).await.unwrap();
    assert!(answers.next().await.unwrap().is_ok());
    let ending = std::sync::Arc::clone(&server.server);
    let ended = tokio::task::spawn_blocking(move || ending.shutdown(Duration::from_secs(5)));
    assert_eq!(answers.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert!(ended.await.unwrap(), "nothing was cut off");
}

/// What is large is inflated beside the I/O thread, and takes longer.
#[tokio::test]
async fn requests_arrive_in_the_order_in_which_they_were_sent() {
    let (server, items) = Running::held();
    let mut client = Client(server.client().await.0.send_compressed(CompressionEncoding::Gzip));
    let (sender, receiver) = mpsc::channel(4);
    let _answers = open(&mut client, receiver, &[]).await.unwrap();
    let ids: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    for (number, id) in ids.iter().enumerate() {
        let elements = if number % 3 == 0 { 50_000 } else { 1 };
        sender.send(ModelInferRequest { id: id.clone(), ..raw_request(elements) }).await.unwrap();
    }
    let count = ids.len();
    let taken = tokio::task::spawn_blocking(move || {
        let ids = (0..count).map(|_| match items.recv_timeout(Duration::from_secs(20)) {
            Ok(Item::Call(call)) => call.request.parsed.id.clone(),
            _ => panic!("a call was expected"),
        });
        ids.collect::<Vec<_>>()
    });
    assert_eq!(taken.await.unwrap(), ids);
}
