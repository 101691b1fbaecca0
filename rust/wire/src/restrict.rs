//! Calls that need a secret: which header the paths of a call must bring, as Python compiled it.
//!
//! A pattern is a path whose segments stand for themselves, but for `*`, which is any one, and `**` at the end, which is
//! all that follows, also nothing. Every restriction that has a pattern for a path must be met.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

/// The header that opens some paths.
pub struct Restriction {
    paths: Vec<Vec<String>>,
    /// As it is told to clients.
    header: String,
    name: HeaderName,
    secret: HeaderValue,
}

impl Restriction {
    /// None when no client could ever send such a header.
    pub fn new(paths: &[String], header: &str, secret: &str) -> Option<Self> {
        let segments = |path: &String| path.split('/').map(str::to_owned).collect();
        Some(Self {
            paths: paths.iter().map(segments).collect(),
            header: header.to_owned(),
            name: HeaderName::from_bytes(header.as_bytes()).ok()?,
            secret: HeaderValue::from_bytes(secret.as_bytes()).ok().filter(|_| secret.trim() == secret)?,
        })
    }

    fn covers(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| matches(pattern, path))
    }

    /// In a time that does not tell how much of a wrong secret is right.
    fn is_met(&self, headers: &HeaderMap) -> bool {
        let equal = |value: &HeaderValue| value.as_bytes().ct_eq(self.secret.as_bytes());
        headers.get_all(&self.name).iter().map(equal).any(bool::from)
    }
}

/// All that holds for the calls of one door.
#[derive(Clone, Default)]
pub struct Restrictions(Option<Arc<[Restriction]>>);

impl Restrictions {
    pub fn new(all: Vec<Restriction>) -> Self {
        Self((!all.is_empty()).then(|| all.into()))
    }

    /// The header that this call should have brought; None when it may go on.
    pub fn missing(&self, path: &str, headers: &HeaderMap) -> Option<&str> {
        self.0.as_ref().and_then(|all| missing(all, path, headers))
    }
}

/// Not derived: nobody should print a secret.
impl fmt::Debug for Restrictions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().flat_map(|all| all.iter()).map(|one| &one.header);
        formatter.debug_list().entries(names).finish()
    }
}

fn missing<'a>(all: &'a [Restriction], path: &str, headers: &HeaderMap) -> Option<&'a str> {
    // Who answers may look at the path as it was sent or at what it stands for; neither shall be a way around.
    let decoded =
        path.contains('%').then(|| percent_decode_str(path).decode_utf8_lossy()).unwrap_or(Cow::Borrowed(path));
    let covers = |one: &&Restriction| one.covers(path) || one.covers(&decoded);
    all.iter().filter(covers).find(|one| !one.is_met(headers)).map(|one| one.header.as_str())
}

fn matches(pattern: &[String], path: &str) -> bool {
    let mut segments = path.split('/');
    for wanted in pattern {
        if wanted == "**" {
            return true;
        }
        let Some(segment) = segments.next() else { return false };
        if wanted != segment && (wanted != "*" || segment.is_empty()) {
            return false;
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restrictions(paths: &[&str]) -> Restrictions {
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        Restrictions::new(vec![Restriction::new(&paths, "X-Key", "open sesame").unwrap()])
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_path_is_open_to_who_has_the_secret() {
        let known = restrictions(&["/v2/models/*/infer"]);
        assert_eq!(known.missing("/v2/models/m/infer", &headers(&[])), Some("X-Key"));
        for wrong in ["", "open", "open sesame ", "Open sesame", "open sesamf"] {
            assert_eq!(known.missing("/v2/models/m/infer", &headers(&[("x-key", wrong)])), Some("X-Key"), "{wrong}");
        }
        assert_eq!(known.missing("/v2/models/m/infer", &headers(&[("x-key", "open sesame")])), None);
        assert_eq!(known.missing("/v2/models/m/infer", &headers(&[("x-key", "a"), ("x-key", "open sesame")])), None);
    }

    #[test]
    fn other_paths_are_free() {
        let known = restrictions(&["/v2/models/*/infer", "/chat/**"]);
        for free in
            ["/v2/models//infer", "/v2/models/m/infer/", "/v2/models/infer", "/v2/models/a/b/infer", "/chats", "/"]
        {
            assert_eq!(known.missing(free, &headers(&[])), None, "{free}");
        }
        for closed in ["/chat", "/chat/", "/chat/a/b", "/v2/models/m/infer"] {
            assert!(known.missing(closed, &headers(&[])).is_some(), "{closed}");
        }
    }

    #[test]
    fn percent_signs_are_no_way_around() {
        let known = restrictions(&["/v2/models/*/infer", "/chat/**"]);
        for closed in ["/%63hat", "/chat%2Fa", "/v2/models/a%2Fb/infer", "/v2/models/m/%69nfer", "/v2/models/%ff/infer"]
        {
            assert!(known.missing(closed, &headers(&[])).is_some(), "{closed}");
        }
    }

    #[test]
    fn what_no_client_can_send_is_refused() {
        for (header, secret) in [("a b", "s"), ("", "s"), ("k", " s"), ("k", "s\t"), ("k", "a\nb"), ("ü", "s")] {
            assert!(Restriction::new(&[], header, secret).is_none(), "{header:?} {secret:?}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", restrictions(&["/v2"])), "[\"X-Key\"]");
    }
}
