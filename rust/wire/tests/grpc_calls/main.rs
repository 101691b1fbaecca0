//! gRPC over real sockets: a real client on one side, a thread that takes calls and answers them on the other.

mod control;
mod decoupled;
mod errors;
mod framing;
mod health;
mod infer;
mod raw;
mod stream;
mod support;
