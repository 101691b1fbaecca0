//! Calls that need a secret: which header the paths of a call must bring, as Python compiled it.
//!
//! A pattern is a path whose segments stand for themselves, but for `*`, which is any one, and `**` at the end, which is
//! all that follows, also nothing. The first class that has a pattern for a path decides; what none has is free.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use subtle::ConstantTimeEq;

/// Paths that are open to the same clients.
pub struct PathClass {
    paths: Vec<Vec<String>>,
    /// None when they are open to all.
    key: Option<Key>,
}

/// The header that opens the paths of a class.
struct Key {
    /// As it is told to clients.
    header: String,
    name: HeaderName,
    secret: HeaderValue,
}

impl PathClass {
    /// None when no client could ever send such a header. Without one, `key` is None.
    pub fn new(paths: &[String], key: Option<(&str, &str)>) -> Option<Self> {
        let segments = |path: &String| path.split('/').map(str::to_owned).collect();
        let paths = paths.iter().map(segments).collect();
        let Some((header, secret)) = key else { return Some(Self { paths, key: None }) };
        Some(Self { paths, key: Some(Key::new(header, secret)?) })
    }

    fn covers(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| matches(pattern, path))
    }
}

impl Key {
    fn new(header: &str, secret: &str) -> Option<Self> {
        Some(Self {
            header: header.to_owned(),
            name: HeaderName::from_bytes(header.as_bytes()).ok()?,
            secret: HeaderValue::from_bytes(secret.as_bytes()).ok().filter(|_| secret.trim() == secret)?,
        })
    }

    /// In a time that does not tell how much of a wrong secret is right.
    fn opens(&self, headers: &HeaderMap) -> bool {
        let equal = |value: &HeaderValue| value.as_bytes().ct_eq(self.secret.as_bytes());
        headers.get_all(&self.name).iter().map(equal).any(bool::from)
    }
}

/// All that holds for the calls of one door.
#[derive(Clone, Default)]
pub struct Restrictions(Option<Arc<[PathClass]>>);

impl Restrictions {
    /// From (path patterns, header, secret) each, or (path patterns, "", "") of paths that are open. The error shows no
    /// secret.
    pub fn of_setting(all: Vec<(Vec<String>, String, String)>) -> Result<Self, String> {
        let class = |(paths, header, secret): (Vec<String>, String, String)| {
            let key = (!header.is_empty()).then_some((header.as_str(), secret.as_str()));
            PathClass::new(&paths, key).ok_or_else(|| format!("'{header}' and its value can't be a header"))
        };
        all.into_iter().map(class).collect::<Result<_, _>>().map(Self::new)
    }

    pub fn new(all: Vec<PathClass>) -> Self {
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
        let names = self.0.iter().flat_map(|all| all.iter()).filter_map(|one| one.key.as_ref()).map(|key| &key.header);
        formatter.debug_list().entries(names).finish()
    }
}

fn missing<'a>(all: &'a [PathClass], path: &str, headers: &HeaderMap) -> Option<&'a str> {
    // Who answers may look at the path as it was sent or at what it stands for; neither shall be a way around.
    let decoded = match path.contains('%') {
        true => percent_decode_str(path).decode_utf8_lossy(),
        false => Cow::Borrowed(path),
    };
    let missing = |path: &str| {
        let key = all.iter().find(|one| one.covers(path))?.key.as_ref()?;
        (!key.opens(headers)).then_some(key.header.as_str())
    };
    missing(path).or_else(|| missing(&decoded))
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
        Restrictions::new(vec![PathClass::new(&paths, Some(("X-Key", "open sesame"))).unwrap()])
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
    fn the_first_class_of_a_path_decides() {
        let class = |path: &str, key| PathClass::new(&[path.to_owned()], key).unwrap();
        let all = vec![class("/v2/models/stats", None), class("/v2/models/*", Some(("k", "s")))];
        let known = Restrictions::new(all);
        assert_eq!(known.missing("/v2/models/stats", &headers(&[])), None);
        assert_eq!(known.missing("/v2/models/m", &headers(&[])), Some("k"));
        // Not what it seems to be: an app may look at it either way.
        assert_eq!(known.missing("/v2/models/%73tats", &headers(&[])), Some("k"));
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
            assert!(PathClass::new(&[], Some((header, secret))).is_none(), "{header:?} {secret:?}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", restrictions(&["/v2"])), "[\"X-Key\"]");
    }
}
