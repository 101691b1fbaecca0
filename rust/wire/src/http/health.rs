//! Liveness and readiness, answered from the published table.

use http::StatusCode;

use super::answer::{self, Answer};
use super::route::Target;
use crate::status::Code;
use crate::table::Published;

/// 200 or 400, without a body.
pub fn yes_or_no(yes: bool) -> Answer {
    answer::empty(if yes { StatusCode::OK } else { StatusCode::BAD_REQUEST })
}

pub fn model_ready(published: &Published, target: &Target) -> Answer {
    let named = match target.version.as_str() {
        "" => format!("model '{}'", target.model),
        version => format!("model '{}' version {version}", target.model),
    };
    match published.model(&target.model, &target.version) {
        Some(entry) if entry.ready => yes_or_no(true),
        Some(_) => answer::error(Code::INVALID_ARGUMENT, &format!("{named} is not ready")),
        None => answer::error(Code::NOT_FOUND, &format!("{named} is not found")),
    }
}
