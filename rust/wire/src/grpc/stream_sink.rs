//! The replies to one call of a stream, as messages.

use std::sync::Arc;

use super::encode;
use super::outgoing::{Content, Outgoing};
use crate::backlog::Backlog;
use crate::call::{Parameter, Request, EMPTY_FINAL_PARAMETER};
use crate::courier::{Courier, Wakes};
use crate::reply::{Failure, Reply, ReplySink, Response};

pub struct StreamSink {
    pub outgoing: Arc<Outgoing>,
    pub courier: Arc<Courier>,
    pub backlog: Arc<Backlog>,
    /// An inference that fails ends the stream.
    pub ends_at_error: bool,
}

impl ReplySink for StreamSink {
    fn send(&self, request: &Request, reply: Reply, wakes: &mut Wakes) {
        let (content, is_last) = self.message(request, reply);
        wakes.add(&self.courier, self.outgoing.put(request.key, content, is_last));
    }

    fn has_room(&self) -> bool {
        self.backlog.has_room()
    }
}

impl StreamSink {
    /// The message of a reply, if it has one, and whether it is the last of its call. One that can't be encoded becomes
    /// the error that ends the call.
    fn message(&self, request: &Request, reply: Reply) -> (Option<Content>, bool) {
        let (model, id) = (&request.parsed.model_name, &request.parsed.id);
        let failure = match reply {
            Reply::End => return (wants_empty_final(request).then(|| encode::streamed(&ended(model), id)), true),
            Reply::Ok(response) => match encode::streamed(&response, id) {
                Ok(framed) => return (Some(Ok(framed)), response.is_final),
                Err(failure) => Failure { of_inference: true, ..failure },
            },
            Reply::Err(failure) => failure,
        };
        match self.ends_at_error && failure.of_inference {
            true => (Some(Err(failure)), true),
            false => (Some(Ok(encode::streamed_failure(&failure, model, id))), failure.is_final),
        }
    }
}

fn wants_empty_final(request: &Request) -> bool {
    let mut parameters = request.parsed.parameters.iter();
    parameters.any(|(key, value)| key == EMPTY_FINAL_PARAMETER && *value == Parameter::Bool(true))
}

/// The responses of a model are over.
fn ended(model: &str) -> Response {
    Response { model_name: model.to_owned(), is_final: true, ..Response::default() }
}
