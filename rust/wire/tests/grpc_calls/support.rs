//! A server with a taker of its own, and the messages that only clients need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use charonia_wire::call::Call;
use charonia_wire::courier::Wakes;
use charonia_wire::grpc::messages::{InferInputTensor, ModelInferRequest, ParameterEntry};
use charonia_wire::inbox::Item;
use charonia_wire::listener::Listener;
use charonia_wire::options::{Listen, Options};
use charonia_wire::reply::{OutputTensor, Reply, Response};
use charonia_wire::server::Server;
use charonia_wire::table::{Entry, Published};
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::Status;
use tonic_prost::ProstCodec;

pub const SERVICE: &str = "/inference.GRPCInferenceService";

#[derive(Clone, PartialEq, Message)]
pub struct ModelInferResponse {
    #[prost(string, tag = "1")]
    pub model_name: String,
    #[prost(string, tag = "2")]
    pub model_version: String,
    #[prost(string, tag = "3")]
    pub id: String,
    #[prost(message, repeated, tag = "4")]
    pub parameters: Vec<ParameterEntry>,
    #[prost(message, repeated, tag = "5")]
    pub outputs: Vec<InferInputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub raw_output_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelStreamInferResponse {
    #[prost(string, tag = "1")]
    pub error_message: String,
    #[prost(message, optional, tag = "2")]
    pub infer_response: Option<ModelInferResponse>,
}

pub struct Running {
    pub server: Arc<Server>,
    stop: Arc<AtomicBool>,
    taker: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(handler: impl FnMut(Item) + Send + 'static) -> Self {
        Self::with_options(Options::default(), handler)
    }

    pub fn with_options(options: Options, mut handler: impl FnMut(Item) + Send + 'static) -> Self {
        let listen = Listen { address: "127.0.0.1".to_owned(), port: Some(0), reuse_port: false };
        let server = Arc::new(Server::new(Options { grpc: listen, ..options }));
        server.start().expect("a free port");
        let ready = Entry { ready: true, ..Entry::default() };
        let loading = Entry::default();
        let decoupled = Entry { decoupled: true, ..ready.clone() };
        let models = [("m", "", ready.clone()), ("m", "1", ready), ("d", "", decoupled), ("loading", "", loading)];
        let models = models.map(|(name, version, entry)| (name.to_owned(), version.to_owned(), entry));
        server.wire.table.publish(Published::new(true, true, models));
        let stop = Arc::new(AtomicBool::new(false));
        let taker = std::thread::spawn({
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let (items, retired) = server.wire.inbox.take(64, Duration::from_millis(100));
                    drop(retired);
                    items.into_iter().for_each(&mut handler);
                }
            }
        });
        Self { server, stop, taker: Some(taker) }
    }

    /// A server that answers every call with its own inputs, or with its defect.
    pub fn echo() -> Self {
        Self::echo_with(Options::default())
    }

    pub fn echo_with(options: Options) -> Self {
        Self::with_options(options, |item| {
            if let Item::Call(call) = item {
                call.reply(echo(&call), &mut Wakes::default());
            }
        })
    }

    /// A server whose calls come out of the channel, unanswered.
    pub fn held() -> (Self, mpsc::Receiver<Item>) {
        Self::held_with(Options::default())
    }

    pub fn held_with(options: Options) -> (Self, mpsc::Receiver<Item>) {
        let (sender, receiver) = mpsc::channel();
        (Self::with_options(options, move |item| drop(sender.send(item))), receiver)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port(Listener::Grpc).unwrap())
    }

    pub async fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).unwrap();
        let channel = endpoint.connect().await.expect("the server listens");
        Client(Grpc::new(channel).max_decoding_message_size(1 << 30))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.shutdown(Duration::ZERO);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(taker) = self.taker.take() {
            let _ = taker.join();
        }
    }
}

pub struct Client(pub Grpc<Channel>);

impl Client {
    pub async fn unary<Q, A>(&mut self, path: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.call(path, tonic::Request::new(request)).await
    }

    pub async fn call<Q, A>(&mut self, path: &str, request: tonic::Request<Q>) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::try_from(path.to_owned()).unwrap();
        self.0.unary(request, path, ProstCodec::default()).await.map(tonic::Response::into_inner)
    }

    pub async fn infer(&mut self, request: ModelInferRequest) -> Result<ModelInferResponse, Status> {
        self.unary(&format!("{SERVICE}/ModelInfer"), request).await
    }
}

/// One FP32 input of this many elements, raw.
pub fn raw_request(elements: usize) -> ModelInferRequest {
    let data: Vec<u8> = (0_u8..=250).cycle().take(elements * 4).collect();
    ModelInferRequest {
        model_name: "m".to_owned(),
        id: "7".to_owned(),
        inputs: vec![tensor("X", "FP32", &[i64::try_from(elements).unwrap()])],
        raw_input_contents: vec![data.into()],
        ..ModelInferRequest::default()
    }
}

pub fn tensor(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

pub fn echo(call: &Call) -> Reply {
    let parsed = &call.request.parsed;
    if let Some(defect) = &parsed.defect {
        return Reply::Err(defect.clone());
    }
    let outputs = parsed.inputs.iter().map(|input| OutputTensor {
        name: input.name.clone(),
        datatype: input.datatype,
        shape: input.shape.clone(),
        data: input.data.clone(),
        is_elsewhere: false,
    });
    Reply::Ok(Response {
        model_name: parsed.model_name.clone(),
        model_version: "1".to_owned(),
        parameters: parsed.parameters.clone(),
        outputs: outputs.collect(),
        is_final: true,
    })
}
