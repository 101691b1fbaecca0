//! Liveness and readiness, answered from the published table.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};

use super::answer::{self, Answer};
use super::route::Target;
use crate::status::Code;
use crate::table::Published;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain");

/// 200 or 400, without a body, whose type is told all the same.
pub fn yes_or_no(yes: bool) -> Answer {
    let mut answer = answer::empty(if yes { StatusCode::OK } else { StatusCode::BAD_REQUEST });
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
}

pub fn model_ready(published: &Published, target: &Target) -> Answer {
    let named = match target.version.as_str() {
        "" => format!("model '{}'", target.model),
        version => format!("model '{}' version {version}", target.model),
    };
    match published.model(&target.model, &target.version) {
        Some(entry) if entry.ready => yes_or_no(true),
        Some(_) => answer::error(Code::INVALID_ARGUMENT, &format!("{named} is not ready")),
        None if !target.version.is_empty() && target.version.parse::<i64>().is_err() => {
            let message = format!("{named} can't be: versions are numbers up to {}", i64::MAX);
            answer::error(Code::INVALID_ARGUMENT, &message)
        }
        None => answer::error(Code::NOT_FOUND, &format!("{named} is not found")),
    }
}
