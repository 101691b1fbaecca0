//! What comes back for a call.

use bytes::Bytes;

use crate::call::Parameters;
use crate::courier::Wakes;
use crate::datatype::DataType;
use crate::status::Code;

/// One output. `data` is C-contiguous little-endian memory, BYTES serialised (4-byte length and bytes, each element);
/// it may be borrowed from elsewhere (`lend::lend`), so it is written as it is and not joined with other bytes.
#[derive(Clone, Debug)]
pub struct OutputTensor {
    pub name: String,
    pub datatype: DataType,
    pub shape: Vec<i64>,
    pub data: Bytes,
    /// Its bytes lie where the client asked for them, in shared memory: the answer only describes it.
    pub is_elsewhere: bool,
}

/// One response of a model.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub model_name: String,
    pub model_version: String,
    pub parameters: Parameters,
    /// In the model's order.
    pub outputs: Vec<OutputTensor>,
    /// False only for responses of decoupled models that are followed by others.
    pub is_final: bool,
}

/// An error in the place of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub message: String,
    /// Of an inference that its model's queue had accepted, and not of a request that was refused.
    pub of_inference: bool,
    /// False only for errors of decoupled models that are followed by other responses.
    pub is_final: bool,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), of_inference: false, is_final: true }
    }

    /// The end came where exactly one response was due.
    pub fn no_response(model: &str) -> Self {
        Self::new(Code::INTERNAL, format!("model '{model}' ended its answer without a response"))
    }
}

#[derive(Clone, Debug)]
pub enum Reply {
    Ok(Response),
    Err(Failure),
    /// The end of a decoupled model's responses, where none comes with it.
    End,
}

impl Reply {
    pub fn is_final(&self) -> bool {
        match self {
            Self::Ok(response) => response.is_final,
            Self::Err(failure) => failure.is_final,
            Self::End => true,
        }
    }
}

/// Where a call's replies go; each protocol has its own.
///
/// `send` encodes on the thread that replies and hands over to the connection; it never blocks. It is called at most
/// once with a final reply, and not again after that. The peer may be gone: then the reply is dropped.
pub trait ReplySink: Send + Sync {
    fn send(&self, request: &crate::call::Request, reply: Reply, wakes: &mut Wakes);

    /// False while the peer is too far behind to be sent more.
    fn has_room(&self) -> bool {
        true
    }
}
