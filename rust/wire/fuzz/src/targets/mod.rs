//! What must hold for any bytes that a client may send.
//!
//! A target takes any input, and panics where something is wrong. Those whose name says what they read take the input
//! as it is; the others read choices from it (`arbitrary`) and make something of them whose right answer they know.
//! Both libFuzzer (`make fuzz`) and a short seeded run (`tests/fuzz_short.rs`) drive them.

pub mod measure;

mod accepted;
mod answers;
mod binary_parts;
mod connection;
mod followed;
mod grpc_frames;
mod grpc_message;
mod grpc_tensors;
mod heads;
mod http2_frames;
mod http_body;
mod inflate;
mod json_header;
mod pieces;
mod tensors;

pub type Target = fn(&[u8]);

pub const ALL: [(&str, Target); 12] = [
    ("answers", answers::run),
    ("binary_parts", binary_parts::run),
    ("connection", connection::run),
    ("followed", followed::run),
    ("grpc_frames", grpc_frames::run),
    ("grpc_message", grpc_message::run),
    ("grpc_tensors", grpc_tensors::run),
    ("heads", heads::run),
    ("http2_frames", http2_frames::run),
    ("http_body", http_body::run),
    ("inflate", inflate::run),
    ("json_header", json_header::run),
];

pub fn by_name(name: &str) -> Option<Target> {
    ALL.into_iter().find(|(known, _)| *known == name).map(|(_, target)| target)
}
