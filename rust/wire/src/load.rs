//! How loaded the server is, as Python tells it, for balancers that ask for it with a request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};

const ASKED: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");
const TOLD: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// The last segments of the paths whose answers tell it.
const VERBS: [&str; 3] = ["infer", "generate", "generate_stream"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// The present load in both forms.
#[derive(Clone)]
pub struct Report {
    pub text: HeaderValue,
    pub json: HeaderValue,
}

/// Costs a look at a flag while there is no report.
#[derive(Default)]
pub struct Load {
    is_known: AtomicBool,
    report: Mutex<Option<Report>>,
}

impl Load {
    pub fn publish(&self, report: Option<Report>) {
        self.is_known.store(report.is_some(), Ordering::Relaxed);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// The form that this request asks for; None when it doesn't, or when there is nothing to tell.
    pub fn asked<B>(&self, request: &Request<B>) -> Option<Format> {
        if !self.is_known.load(Ordering::Relaxed) {
            return None;
        }
        let format = match request.headers().get(ASKED)?.as_bytes() {
            b"text" => Format::Text,
            b"json" => Format::Json,
            _ => return None,
        };
        let verb = request.uri().path().rsplit('/').next().unwrap_or_default();
        VERBS.contains(&verb).then_some(format)
    }

    /// Not to those who were not let in.
    pub fn tell(&self, format: Format, status: StatusCode, headers: &mut HeaderMap) {
        if status == StatusCode::FORBIDDEN {
            return;
        }
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let value = report.map(|report| if format == Format::Text { report.text } else { report.json });
        value.map(|value| headers.insert(TOLD, value));
    }
}
