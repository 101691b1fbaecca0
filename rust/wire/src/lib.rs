//! The wire: HTTP and gRPC on one side, calls and replies on the other. Knows no model, no config, no Python.
//!
//! One request's way: `http` or `grpc` reads it, `tensor` decodes it, it becomes a `call::Call` in the `inbox`;
//! whoever takes it answers with a `reply::Reply`, which the call's sink encodes and hands to its connection.

pub mod access;
pub mod answer_parts;
pub mod authority;
pub mod awake;
pub mod backlog;
pub mod bind;
pub mod budget;
pub mod call;
pub mod connections;
pub mod control;
pub mod counters;
pub mod courier;
pub mod datatype;
pub mod forward;
pub mod frames;
pub mod gateway;
pub mod guarded;
pub mod heads;
pub mod in_hand;
pub mod inbox;
pub mod lend;
pub mod listener;
pub mod load;
pub mod old_certificates;
pub mod options;
pub mod pace;
pub mod remarks;
pub mod reply;
pub mod restrict;
pub mod server;
pub mod shelf;
pub mod slot;
pub mod socket;
pub mod status;
pub mod table;
pub mod tls;
pub mod watch;
pub mod wire;

pub mod grpc;
pub mod http;
pub mod tensor;
