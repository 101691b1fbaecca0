//! An HTTP/2 client without gRPC in it, to send what no gRPC client would.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::Running;

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

pub struct Raw {
    sender: SendRequest<Body>,
    connection: JoinHandle<hyper::Result<()>>,
}

pub struct RawAnswer {
    /// Headers and trailers together.
    fields: HeaderMap,
}

impl Raw {
    pub async fn connect(server: &Running) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        Self { sender, connection: tokio::spawn(connection) }
    }

    pub async fn post(&self, path: &str, headers: &[(&'static str, &str)], pieces: Vec<Bytes>) -> RawAnswer {
        let frames = tokio_stream::iter(pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
        let body = BodyExt::boxed(StreamBody::new(frames));
        let mut request = Request::post(format!("http://server{path}")).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.sender.clone().send_request(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut fields = answer.headers().clone();
        let collected = answer.into_body().collect().await.unwrap();
        fields.extend(collected.trailers().cloned().unwrap_or_default());
        RawAnswer { fields }
    }

    /// Ask with a body that may never end, and don't wait for the answer.
    pub fn begin(&self, path: &str, body: Body) -> JoinHandle<()> {
        let request = Request::post(format!("http://server{path}")).header("content-type", "application/grpc");
        let answer = self.sender.clone().send_request(request.body(body).unwrap());
        tokio::spawn(async move { drop(answer.await) })
    }

    /// The HTTP status of a request that is not gRPC.
    pub async fn get(&self, path: &str) -> http::StatusCode {
        let body = BodyExt::boxed(http_body_util::Empty::new());
        let request = Request::get(format!("http://server{path}")).body(body).unwrap();
        self.sender.clone().send_request(request).await.unwrap().status()
    }

    /// Ask, and read nothing of the answer but its head.
    pub async fn post_unread(&self, path: &str, message: Bytes) -> impl Sized {
        let body = BodyExt::boxed(http_body_util::Full::new(message));
        let request = Request::post(format!("http://server{path}")).header("content-type", "application/grpc");
        let request = request.body(body).unwrap();
        self.sender.clone().send_request(request).await.unwrap()
    }

    /// Wait for the server to close the connection.
    pub async fn ended(self) {
        let Self { sender, connection } = self;
        let _ = connection.await;
        drop(sender);
    }
}

impl RawAnswer {
    pub fn trailer(&self, name: &str) -> String {
        self.fields.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }
}
