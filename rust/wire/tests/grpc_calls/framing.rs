//! Messages that are broken, too large, or cut into pieces.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use charonia_wire::courier::Wakes;
use charonia_wire::inbox::Item;
use charonia_wire::options::Options;
use charonia_wire::reply::Reply;
use charonia_wire::status::Code as WireCode;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use prost::Message;

use crate::raw::Raw;
use crate::support::{echo, raw_request, Running};

pub fn framed(flag: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(flag);
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.extend_from_slice(message);
    bytes.freeze()
}

async fn status(server: &Running, pieces: Vec<Bytes>) -> (String, String) {
    let answer = Raw::connect(server).await.post("/inference.GRPCInferenceService/ModelInfer", &[], pieces).await;
    (answer.trailer("grpc-status"), answer.trailer("grpc-message"))
}

#[tokio::test]
async fn a_message_in_many_pieces() {
    let server = Running::echo();
    let whole = framed(0, &raw_request(50).encode_to_vec());
    for size in [1, 3, 5, 6, 100] {
        let pieces = whole.chunks(size).map(Bytes::copy_from_slice).collect();
        assert_eq!(status(&server, pieces).await.0, "0", "pieces of {size}");
    }
}

#[tokio::test]
async fn a_joined_message_ends_aligned() {
    let server = Running::start(|item| {
        let Item::Call(call) = item else { return };
        let address = call.request.parsed.inputs[0].data.as_ptr().addr();
        call.fail(WireCode(i32::from(address % 64 != 0)), "the input is not aligned", &mut Wakes::default());
    });
    let whole = framed(0, &raw_request(1 << 16).encode_to_vec());
    for size in [1_001, 100_000] {
        let pieces = whole.chunks(size).map(Bytes::copy_from_slice).collect();
        assert_eq!(status(&server, pieces).await.0, "0");
    }
}

#[tokio::test]
async fn what_is_no_message() {
    let server = Running::echo();
    let cases: Vec<(Vec<Bytes>, &str, &str)> = vec![
        (vec![], "3", "no message"),
        (vec![Bytes::from_static(b"\0\0\0")], "3", "after 3 of 5 bytes"),
        (vec![Bytes::from_static(b"\0\0\0\0\x09abc")], "3", "after 3 of 9 bytes"),
        (vec![framed(2, b"")], "3", "flag 2"),
        (vec![framed(0, b"\xff\xff\xff")], "3", "not a valid ModelInferRequest"),
        (vec![framed(1, b"abc")], "3", "without a grpc-encoding"),
    ];
    for (pieces, code, told) in cases {
        let (status, message) = status(&server, pieces).await;
        assert_eq!(status, code, "{message}");
        assert!(message.contains(told), "{message}");
    }
    assert_eq!(status(&server, vec![framed(0, &raw_request(1).encode_to_vec())]).await.0, "0");
}

#[tokio::test]
async fn messages_over_the_limit() {
    let options = Options { grpc_max_message_bytes: 1000, ..Options::default() };
    let server = Running::with_options(options, drop);
    let (code, message) = status(&server, vec![framed(0, &vec![0; 1001])]).await;
    assert_eq!(code, "8");
    assert!(message.contains("1001") && message.contains("1000"), "{message}");
    // A lie about the length reserves nothing.
    let (code, _) = status(&server, vec![Bytes::from_static(b"\0\xff\xff\xff\xff")]).await;
    assert_eq!(code, "8");
}

#[tokio::test]
async fn a_bomb_is_inflated_no_further_than_the_limit() {
    use std::io::Write;
    let options = Options { grpc_max_message_bytes: 100_000, ..Options::default() };
    let server = Running::with_options(options, drop);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; 10_000_000]).unwrap();
    let bomb = framed(1, &encoder.finish().unwrap());
    let path = "/inference.GRPCInferenceService/ModelInfer";
    let raw = Raw::connect(&server).await;
    let answer = raw.post(path, &[("grpc-encoding", "gzip")], vec![bomb]).await;
    assert_eq!(answer.trailer("grpc-status"), "8");
    let raw = Raw::connect(&server).await;
    let answer = raw.post(path, &[("grpc-encoding", "gzip")], vec![framed(1, b"no gzip")]).await;
    assert_eq!(answer.trailer("grpc-status"), "3");
    let raw = Raw::connect(&server).await;
    let answer = raw.post(path, &[("grpc-encoding", "br")], vec![framed(1, b"")]).await;
    assert_eq!(answer.trailer("grpc-status"), "12");
    assert_eq!(answer.trailer("grpc-accept-encoding"), "identity,deflate,gzip");
}

#[tokio::test]
async fn the_budget_refuses_after_a_while() {
    let options = Options { body_budget_bytes: 1000, body_wait_ms: 50, ..Options::default() };
    let server = Running::with_options(options, drop);
    let (code, _) = status(&server, vec![framed(0, &vec![0; 1001])]).await;
    assert_eq!(code, "14");
    assert_eq!(server.server.wire.budget.used(), 0);
}

#[tokio::test]
async fn what_is_only_announced_takes_no_budget() {
    let options = Options { body_budget_bytes: 1 << 20, body_wait_ms: 50, ..Options::default() };
    let server = Running::with_options(options, |item| {
        let Item::Call(call) = item else { return };
        call.reply(echo(&call), &mut Wakes::default());
    });
    let path = "/inference.GRPCInferenceService/ModelInfer";
    let greedy = Raw::connect(&server).await;
    let never = StreamBody::new(tokio_stream::StreamExt::chain(
        tokio_stream::iter([Ok(Frame::data(Bytes::from_static(&[0, 0, 0x0f, 0xff, 0xff, 0])))]),
        tokio_stream::pending(),
    ));
    let _asking = greedy.begin(path, BodyExt::boxed(never));
    greedy.get("/").await; // a later stream of the same connection was answered: the announcement has come
    let answer = Raw::connect(&server).await.post(path, &[], vec![framed(0, &raw_request(1).encode_to_vec())]).await;
    assert_eq!(answer.trailer("grpc-status"), "0");
}

#[tokio::test]
async fn what_a_message_grows_to_counts_too() {
    let options = Options { body_budget_bytes: 10 << 20, body_wait_ms: 50, ..Options::default() };
    let server = Running::with_options(options, drop);
    // A megabyte of empty inputs.
    let (code, _) = status(&server, vec![framed(0, &[0x2a, 0].repeat(1 << 19))]).await;
    assert_eq!(code, "14");
    assert_eq!(server.server.wire.budget.used(), 0);
}

#[tokio::test]
async fn a_finished_server_says_goodbye() {
    let server = Running::echo();
    let raw = Raw::connect(&server).await;
    let message = framed(0, &raw_request(1).encode_to_vec());
    let path = "/inference.GRPCInferenceService/ModelInfer";
    assert_eq!(raw.post(path, &[], vec![message]).await.trailer("grpc-status"), "0");
    let ending = Arc::clone(&server.server);
    let in_time = tokio::task::spawn_blocking(move || ending.shutdown(Duration::from_secs(5))).await.unwrap();
    assert!(in_time, "an idle connection does not hold the server");
    raw.ended().await;
}

/// Tells when it was dropped.
struct Lent(Vec<u8>, std::sync::mpsc::Sender<()>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = self.1.send(());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_gives_lent_memory_back() {
    let (sender, given_back) = std::sync::mpsc::channel();
    let options = Options { write_timeout_ms: 100, ..Options::default() };
    let server = Running::with_options(options, move |item| {
        let Item::Call(call) = item else { return };
        let Reply::Ok(mut response) = echo(&call) else { panic!("the request is right") };
        response.outputs[0].data = Bytes::from_owner(Lent(vec![0; 32 << 20], sender.clone()));
        response.outputs[0].shape = vec![(32 << 20) / i64::try_from(response.outputs[0].datatype.item_size()).unwrap()];
        call.reply(Reply::Ok(response), &mut Wakes::default());
    });
    let raw = Raw::connect(&server).await;
    let message = framed(0, &raw_request(1).encode_to_vec());
    let unread = raw.post_unread("/inference.GRPCInferenceService/ModelInfer", message).await;
    let wait = move || given_back.recv_timeout(Duration::from_secs(5));
    tokio::task::spawn_blocking(wait).await.unwrap().expect("the memory is given back");
    raw.ended().await;
    drop(unread);
}
