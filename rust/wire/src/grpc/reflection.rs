//! Server reflection, versions v1 and v1alpha, over the descriptors that the options bring.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tonic_reflection::server::{Builder, Error};
use tower_service::Service;

use super::answer::{Answer, AnswerBody, BodyError};

type Answering = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;
type Handler = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

/// Both versions of the service.
pub struct Reflection {
    v1: Handler,
    v1alpha: Handler,
}

impl Reflection {
    /// None when there are no descriptors, or when they are none.
    pub fn of(file_descriptor_set: &[u8]) -> Option<Self> {
        if file_descriptor_set.is_empty() {
            return None;
        }
        Self::build(file_descriptor_set).ok()
    }

    fn build(file_descriptor_set: &[u8]) -> Result<Self, Error> {
        let builder = || Builder::configure().register_encoded_file_descriptor_set(file_descriptor_set);
        Ok(Self { v1: handler(builder().build_v1()?), v1alpha: handler(builder().build_v1alpha()?) })
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Answer {
        let version = if request.uri().path().starts_with(V1) { &self.v1 } else { &self.v1alpha };
        let answer = version(request).await;
        answer.map(|body| AnswerBody::Stream(Box::pin(body.map_err(BodyError::from))))
    }
}

const V1: &str = "/grpc.reflection.v1.ServerReflection/";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// Whether the path is a method of this service.
pub fn serves(path: &str) -> bool {
    path.starts_with(V1) || path.starts_with(V1_ALPHA)
}

fn handler<S>(service: S) -> Handler
where
    S: Service<Request<Incoming>, Response = Response<tonic::body::Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Box::new(move |request| {
        let answering = service.clone().call(request);
        Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
    })
}
