//! `ModelStreamInfer` of decoupled models: any number of responses, in no order with others, no faster than they are read.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::call::Call;
use charonia_wire::courier::Wakes;
use charonia_wire::datatype::DataType;
use charonia_wire::grpc::messages::{InferParameter, ModelInferRequest, ParameterChoice, ParameterEntry};
use charonia_wire::inbox::Item;
use charonia_wire::options::Options;
use charonia_wire::reply::{Failure, OutputTensor, Reply, Response};
use charonia_wire::status::Code;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::Status;

use crate::stream::{open, request, Answers};
use crate::support::{echo, Client, ModelStreamInferResponse, Running};

const PATIENCE: Duration = Duration::from_secs(20);

fn decoupled(id: &str) -> ModelInferRequest {
    ModelInferRequest { model_name: "d".to_owned(), ..request(id) }
}

fn with_flag(asked: ModelInferRequest, flag: bool) -> ModelInferRequest {
    let value = Some(InferParameter { choice: Some(ParameterChoice::Bool(flag)) });
    let entry = ParameterEntry { key: "triton_enable_empty_final_response".to_owned(), value };
    ModelInferRequest { parameters: vec![entry], ..asked }
}

/// A response with one output of `bytes` bytes.
fn response(bytes: usize, is_final: bool) -> Reply {
    let (name, shape) = ("Y".to_owned(), vec![i64::try_from(bytes).unwrap()]);
    let data = Bytes::from(vec![7; bytes]);
    let output = OutputTensor { name, datatype: DataType::Uint8, shape, data, is_elsewhere: false };
    let (model_name, model_version) = ("d".to_owned(), "1".to_owned());
    Reply::Ok(Response { model_name, model_version, outputs: vec![output], is_final, ..Response::default() })
}

fn send(call: &Call, reply: Reply) -> bool {
    call.reply(reply, &mut Wakes::default())
}

/// A server whose calls the test answers, and one open stream to it.
struct Talk {
    _server: Running,
    client: Client,
    items: Option<Receiver<Item>>,
    sender: mpsc::Sender<ModelInferRequest>,
    answers: Answers,
}

impl Talk {
    async fn begin(options: Options, metadata: &[(&'static str, &'static str)]) -> Self {
        Self::begin_with(options, metadata, |client| client).await
    }

    async fn begin_with(
        options: Options,
        metadata: &[(&'static str, &'static str)],
        change: impl FnOnce(Client) -> Client,
    ) -> Self {
        let (server, items) = Running::held_with(options);
        let (sender, receiver) = mpsc::channel(4);
        let mut client = change(server.client().await);
        let answers = open(&mut client, receiver, metadata).await.unwrap();
        Self { _server: server, client, items: Some(items), sender, answers }
    }

    async fn ask(&mut self, asked: ModelInferRequest) -> Call {
        self.sender.send(asked).await.unwrap();
        match self.item().await {
            Item::Call(call) => call,
            Item::Cancelled(key) | Item::Room(key) | Item::Sent(key) => panic!("expected a call, got news of {key}"),
        }
    }

    async fn item(&mut self) -> Item {
        let items = self.items.take().unwrap();
        let wait = move || (items.recv_timeout(PATIENCE), items);
        let (item, items) = tokio::task::spawn_blocking(wait).await.unwrap();
        self.items = Some(items);
        item.expect("something comes")
    }

    async fn answer(&mut self) -> Result<ModelStreamInferResponse, Status> {
        self.answers.next().await.expect("an answer")
    }

    /// (id, error message, the final flag) of the next message.
    async fn told(&mut self) -> (String, String, Option<bool>) {
        let answer = self.answer().await.unwrap();
        let response = answer.infer_response.unwrap();
        let flag = response.parameters.iter().find(|entry| entry.key == "triton_final_response");
        let flag = flag.map(|entry| match entry.value.clone().unwrap().choice {
            Some(ParameterChoice::Bool(flag)) => flag,
            other => panic!("no flag: {other:?}"),
        });
        (response.id, answer.error_message, flag)
    }

    async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.told().await.0);
        }
        ids
    }

    /// Asks for nothing more; the stream ends with OK and without another message.
    async fn ends(self) {
        let Self { sender, mut answers, .. } = self;
        drop(sender);
        assert!(answers.next().await.is_none());
    }
}

#[tokio::test]
async fn decoupled_models_wait_for_nobody_and_keep_nobody_waiting() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let (p1, d1) = (talk.ask(request("p1")).await, talk.ask(decoupled("d1")).await);
    let (p2, d2) = (talk.ask(request("p2")).await, talk.ask(decoupled("d2")).await);
    for call in [&d2, &d1, &d2] {
        assert!(send(call, response(4, false)));
    }
    assert_eq!(talk.ids(3).await, ["d2", "d1", "d2"]);
    assert!(send(&p2, echo(&p2)));
    assert!(send(&d1, response(4, true)));
    assert_eq!(talk.told().await, ("d1".to_owned(), String::new(), Some(true)), "p2 waits for p1");
    assert!(send(&p1, echo(&p1)));
    assert_eq!(talk.ids(2).await, ["p1", "p2"], "and neither for d2");
    assert!(send(&d2, Reply::End));
    talk.ends().await;
}

#[tokio::test]
async fn a_bare_end_is_a_message_for_who_asks() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    for asked in [decoupled("none"), with_flag(decoupled("off"), false)] {
        assert!(send(&talk.ask(asked).await, Reply::End));
    }
    let call = talk.ask(with_flag(decoupled("e"), true)).await;
    assert!(send(&call, response(4, false)));
    assert!(send(&call, Reply::End));
    assert!(!send(&call, Reply::End), "once");
    assert_eq!(talk.told().await, ("e".to_owned(), String::new(), Some(false)));
    let end = talk.answer().await.unwrap().infer_response.unwrap();
    assert_eq!((end.model_name.as_str(), end.model_version.as_str(), end.id.as_str()), ("d", "", "e"));
    assert_eq!((end.parameters.len(), end.outputs.len(), end.raw_output_contents.len()), (1, 0, 0));
    let plain = talk.ask(with_flag(request("p"), true)).await;
    assert!(send(&plain, echo(&plain)));
    assert_eq!(talk.told().await, ("p".to_owned(), String::new(), Some(true)));
    talk.ends().await;
}

fn failure(of_inference: bool) -> Reply {
    Reply::Err(Failure { of_inference, ..Failure::new(Code::INTERNAL, "boom") })
}

#[tokio::test]
async fn an_error_ends_its_request_and_not_the_stream() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let (refused, first, later) =
        (talk.ask(decoupled("r")).await, talk.ask(decoupled("f")).await, talk.ask(decoupled("l")).await);
    assert!(send(&later, response(4, false)));
    assert!(send(&refused, failure(false)));
    assert!(send(&first, failure(true)));
    assert!(send(&later, failure(true)));
    assert!(!send(&later, response(4, true)), "nothing follows an error");
    let boom = |id: &str, flag| (id.to_owned(), "boom".to_owned(), flag);
    assert_eq!(talk.told().await, ("l".to_owned(), String::new(), Some(false)));
    assert_eq!(talk.told().await, boom("r", None));
    let answer = talk.answer().await.unwrap();
    assert_eq!((answer.error_message.as_str(), answer.infer_response.unwrap().model_name.as_str()), ("boom", "d"));
    assert_eq!(talk.told().await, boom("l", Some(true)));
    talk.ends().await;
}

#[tokio::test]
async fn an_error_ends_the_stream_of_who_wants_it_so_after_what_came_before() {
    let mut talk = Talk::begin(Options::default(), &[("triton_grpc_error", "true")]).await;
    let (refused, call) = (talk.ask(decoupled("r")).await, talk.ask(decoupled("d")).await);
    let waiting = talk.ask(request("p")).await;
    assert!(send(&refused, failure(false)));
    for _ in 0..3 {
        assert!(send(&call, response(4, false)));
    }
    assert!(send(&call, failure(true)));
    assert_eq!(talk.told().await.1, "boom", "a refusal is a message all the same");
    assert_eq!(talk.ids(3).await, ["d", "d", "d"]);
    let status = talk.answer().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::Internal, "boom"));
    assert!(matches!(talk.item().await, Item::Cancelled(key) if key == waiting.request.key));
}

#[tokio::test]
async fn a_response_that_cannot_be_encoded_ends_its_request() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let call = talk.ask(decoupled("d")).await;
    let Reply::Ok(mut wrong) = response(4, false) else { unreachable!() };
    wrong.outputs[0].shape = vec![5];
    assert!(send(&call, response(4, false)));
    assert!(send(&call, Reply::Ok(wrong)));
    assert_eq!(talk.told().await, ("d".to_owned(), String::new(), Some(false)));
    let (id, message, flag) = talk.told().await;
    assert_eq!((id.as_str(), flag), ("d", Some(true)));
    assert!(message.contains("'Y'"), "{message}");
    assert!(matches!(talk.item().await, Item::Cancelled(key) if key == call.request.key), "its maker is told");
    send(&call, response(4, false));
    send(&call, Reply::End);
    talk.ends().await;
}

#[tokio::test]
async fn many_responses_come_whole_and_in_order() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let call = talk.ask(decoupled("d")).await;
    let sizes = [1, 100, 9 << 10, 5, 0, 40 << 10, 2, 8 << 10, 3];
    let mut wakes = Wakes::default();
    for round in 0..200 {
        for (place, size) in sizes.iter().enumerate() {
            let is_final = round == 199 && place == sizes.len() - 1;
            assert!(call.reply(response(*size, is_final), &mut wakes));
        }
    }
    drop(wakes);
    for round in 0..200 {
        for size in sizes {
            let response = talk.answer().await.unwrap().infer_response.unwrap();
            assert_eq!(response.raw_output_contents[0].len(), size, "in round {round}");
        }
    }
    talk.ends().await;
}

#[tokio::test]
async fn compressed_responses_come_in_order() {
    let packed = |client: Client| Client(client.0.send_compressed(Gzip).accept_compressed(Gzip));
    let mut talk = Talk::begin_with(Options::default(), &[], packed).await;
    let call = talk.ask(decoupled("d")).await;
    for size in [1, 100_000, 1000, 3] {
        assert!(send(&call, response(size, size == 3)));
    }
    for size in [1, 100_000, 1000, 3] {
        let response = talk.answer().await.unwrap().infer_response.unwrap();
        assert_eq!(response.raw_output_contents[0], vec![7; size]);
    }
    talk.ends().await;
}

/// Send until there is no room; how many messages that took.
fn fill(call: &Call, bytes: usize) -> usize {
    for count in 1.. {
        assert!(send(call, response(bytes, false)));
        if !call.has_room() {
            return count;
        }
        // The connection is given the time that it has in life, so that not all of it is in our own queue.
        std::thread::sleep(Duration::from_micros(100));
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_holds_back_its_own_request_only() {
    for bytes in [10 << 10, 300 << 10] {
        let mut talk = Talk::begin(Options::default(), &[]).await;
        let (slow, quick) = (talk.ask(decoupled("slow")).await, talk.ask(decoupled("quick")).await);
        let (slow, sent) = tokio::task::spawn_blocking(move || {
            let sent = fill(&slow, bytes);
            (slow, sent)
        })
        .await
        .unwrap();
        assert!(sent * bytes < 32 << 20, "a reader that reads nothing costs bounded memory: {sent} of {bytes} bytes");
        assert!(quick.has_room());
        assert_eq!(talk.ids(sent).await, vec!["slow"; sent]);
        assert!(matches!(talk.item().await, Item::Room(key) if key == slow.request.key));
        assert!(slow.has_room());
        assert!(send(&quick, response(4, true)));
        assert!(send(&slow, Reply::End));
        assert_eq!(talk.told().await.0, "quick");
        talk.ends().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_is_cut_and_another_stream_of_its_connection_is_not() {
    let mut talk = Talk::begin(Options { write_timeout_ms: 200, ..Options::default() }, &[]).await;
    let (slow, waits) = (talk.ask(decoupled("slow")).await, talk.ask(request("p")).await);
    let slow = tokio::task::spawn_blocking(move || {
        fill(&slow, 4 << 10);
        slow
    })
    .await
    .unwrap();
    let mut gone = Vec::new();
    for _ in 0..2 {
        let Item::Cancelled(key) = talk.item().await else { panic!("a cancellation was expected") };
        gone.push(key);
    }
    gone.sort_unstable();
    assert_eq!(gone, [slow.request.key, waits.request.key]);
    assert!(slow.has_room(), "nobody waits for a reader that was cut");
    let status = loop {
        match talk.answer().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    assert!(status.message().contains("--write-timeout-secs"));
}

#[tokio::test]
async fn a_request_may_wait_for_one_that_comes_long_after_it() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let first = talk.ask(request("first")).await;
    for number in 0..2000 {
        let call = talk.ask(request(&number.to_string())).await;
        assert!(send(&call, echo(&call)));
    }
    assert!(send(&first, echo(&first)));
    assert_eq!(talk.told().await.0, "first");
    assert_eq!(talk.ids(2000).await, (0..2000).map(|number| number.to_string()).collect::<Vec<_>>());
    talk.ends().await;
}

#[tokio::test]
async fn no_more_is_read_while_too_much_waits_for_an_answer_before_it() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let first = talk.ask(request("first")).await;
    for _ in 0..3 {
        let large = talk.ask(request("large")).await;
        assert!(send(&large, response(24 << 20, true)));
    }
    // One is waited for already.
    let last = talk.ask(request("last")).await;
    talk.sender.send(request("too many")).await.unwrap();
    let mut client = Client(talk.client.0.clone());
    tokio::spawn(async move { client.infer(request("aside")).await });
    assert!(matches!(talk.item().await, Item::Call(call) if call.request.parsed.id == "aside"));
    assert!(send(&last, echo(&last)));
    assert!(send(&first, echo(&first)));
    assert_eq!(talk.ids(5).await, ["first", "large", "large", "large", "last"]);
    let item = talk.item().await;
    assert!(matches!(item, Item::Call(call) if call.request.parsed.id == "too many"));
}

#[tokio::test]
async fn a_model_may_go_on_after_an_error() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let call = talk.ask(decoupled("d")).await;
    let error = Failure { of_inference: true, is_final: false, ..Failure::new(Code::INTERNAL, "boom") };
    assert!(send(&call, Reply::Err(error)));
    assert!(send(&call, response(4, true)));
    assert_eq!(talk.told().await, ("d".to_owned(), "boom".to_owned(), Some(false)));
    assert_eq!(talk.told().await, ("d".to_owned(), String::new(), Some(true)));
    talk.ends().await;
}

#[tokio::test]
async fn a_request_is_read_while_a_model_talks_without_pause() {
    let mut talk = Talk::begin(Options::default(), &[]).await;
    let call = talk.ask(decoupled("d")).await;
    let talking = std::thread::spawn(move || {
        while !call.is_cancelled() {
            match call.has_room() {
                true => drop(send(&call, response(1000, false))),
                false => std::thread::yield_now(),
            }
        }
    });
    talk.sender.send(request("p")).await.unwrap();
    let reading = async {
        loop {
            let _ = talk.answers.next().await;
        }
    };
    let items = talk.items.take().unwrap();
    let heard = tokio::task::spawn_blocking(move || loop {
        if let Item::Call(call) = items.recv_timeout(PATIENCE).expect("the request is read") {
            return call.request.parsed.id.clone();
        }
    });
    tokio::select! {
        id = heard => assert_eq!(id.unwrap(), "p"),
        () = reading => {}
    }
    drop((talk.answers, talk.sender));
    tokio::task::spawn_blocking(move || talking.join().unwrap()).await.unwrap();
}
