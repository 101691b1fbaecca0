//! HTTP/1.1 and HTTP/2: one connection's requests read, routed and answered.
//!
//! `listen` accepts connections; `service` takes one request by the `route` of its path: `health` answers from the
//! published table, `infer` makes a call of it, `control` hands it over whole. `body` reads what the client sends
//! into memory of the `pool`, `answer` is what goes back (`encode` makes it of a reply), `compress` works both ways.

pub mod answer;
pub mod body;
pub mod compress;
pub mod control;
pub mod encode;
pub mod health;
pub mod infer;
pub mod listen;
pub mod pool;
pub mod route;
pub mod service;
pub mod stalled;

pub use listen::serve;
