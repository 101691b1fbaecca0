//! gRPC: one connection's calls read, dispatched by their path and answered.
//!
//! `listen` accepts connections; `service` takes one call by the path of its method: `health` answers from the published
//! table, `infer` makes a `Call` of a `ModelInfer`, `stream` many of a `ModelStreamInfer` (`stream_sink` makes their
//! answers, `outgoing` has them until they go), `reflection` describes the services, `control` hands over everything
//! else. `frame` reads messages (`compression` inflates them), `decode` turns them into calls, `encode` replies into
//! messages, `answer` is what goes back, `driven` where that is a stream. `line` keeps the order of unary calls.

pub mod answer;
pub mod compression;
pub mod contents;
pub mod control;
pub mod decode;
pub mod driven;
pub mod encode;
pub mod frame;
pub mod health;
pub mod infer;
pub mod line;
pub mod link;
pub mod listen;
pub mod messages;
pub mod outgoing;
pub mod reflection;
pub mod service;
pub mod stalled;
pub mod stream;
pub mod stream_sink;
pub mod timeout;
pub mod weight;

pub use listen::serve;
