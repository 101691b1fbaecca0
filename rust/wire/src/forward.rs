//! Headers that are handed on to models, by a pattern of their names.

use http::{HeaderMap, HeaderName};
use regex::bytes::{Regex, RegexBuilder};

/// (name, value); a name may be there several times.
pub type Forwarded = Vec<(String, String)>;

/// Headers of gRPC itself.
const OF_GRPC: [&str; 2] = ["te", "content-type"];

/// The head of an HTTP/1 request as it was sent.
#[derive(Clone)]
pub struct RawHead(pub Vec<u8>);

/// A pattern found anywhere in a name lets its header pass; case counts only behind `(?-i)`. Takes a time that is linear
/// in the name's length.
#[derive(Clone, Debug)]
pub struct HeaderPattern(Regex);

impl HeaderPattern {
    /// None for "".
    pub fn of_setting(pattern: &str) -> Result<Option<Self>, String> {
        (!pattern.is_empty()).then(|| Self::new(pattern)).transpose()
    }

    /// The error says what is wrong with the pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        RegexBuilder::new(pattern)
            .unicode(false)
            .case_insensitive(true)
            .build()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Of an HTTP request: names as in `raw`, in lower case without it.
    pub fn of_http(&self, headers: &HeaderMap, raw: Option<&RawHead>) -> Forwarded {
        let raw = raw.map(|raw| pairs(&raw.0)).filter(|pairs| are_equal(pairs, headers));
        raw.map_or_else(|| self.of(headers, |_| true), |pairs| self.of_raw(&pairs))
    }

    /// Of a gRPC call: its metadata.
    pub fn of_grpc(&self, headers: &HeaderMap) -> Forwarded {
        self.of(headers, |name| !name.as_str().starts_with("grpc-") && !OF_GRPC.contains(&name.as_str()))
    }

    fn of(&self, headers: &HeaderMap, may: impl Fn(&HeaderName) -> bool) -> Forwarded {
        let chosen = headers.iter().filter(|(name, _)| self.0.is_match(name.as_str().as_bytes()) && may(name));
        chosen.map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
    }

    /// Spaces behind a value stay, as Triton has it.
    fn of_raw(&self, pairs: &[Pair<'_>]) -> Forwarded {
        let chosen = pairs.iter().filter(|(name, _)| self.0.is_match(name));
        chosen.map(|(name, value)| (text(name), text(value))).collect()
    }
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// The headers of a head that HTTP's library has found right.
fn pairs(head: &[u8]) -> Vec<Pair<'_>> {
    let lines = head.split(|&byte| byte == b'\n').skip(1).map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let pairs = lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
    });
    pairs.collect()
}

/// Whether these are the headers that the library has read. Were they those of another request, a client could give its
/// own to a neighbour on the connection of a proxy.
fn are_equal(pairs: &[Pair<'_>], headers: &HeaderMap) -> bool {
    let is_there = |(index, (name, value)): (usize, &Pair<'_>)| {
        let before = pairs[..index].iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
        let Ok(name) = HeaderName::from_bytes(name) else { return false };
        headers.get_all(name).iter().nth(before).is_some_and(|read| read.as_bytes() == value.trim_ascii_end())
    };
    pairs.len() == headers.len() && pairs.iter().enumerate().all(is_there)
}

/// Bytes that are no UTF-8 as Latin-1, as HTTP has it.
pub fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn shown(forwarded: &Forwarded) -> Vec<(&str, &str)> {
        forwarded.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn a_pattern_may_stand_anywhere_in_a_name() {
        let head = RawHead(b"GET / HTTP/1.1\r\nMY_Header: a\r\nother: b\r\nmy_header:  c \r\n\r\n".to_vec());
        let pairs = [("my_header", "a"), ("other", "b"), ("my_header", "c")];
        let headers = read(&pairs);
        let forwarded = |pattern| HeaderPattern::new(pattern).unwrap().of_http(&headers, Some(&head));
        assert_eq!(shown(&forwarded("head")), [("MY_Header", "a"), ("my_header", "c ")]);
        assert_eq!(shown(&forwarded("(?-i)^MY_")), [("MY_Header", "a")]);
        assert!(forwarded("^Header$").is_empty());
    }

    #[test]
    fn the_head_of_another_request_is_not_looked_at() {
        let pattern = HeaderPattern::new("user").unwrap();
        let head = RawHead(b"GET / HTTP/1.1\r\nX-User: admin\r\nA: 1\r\n\r\n".to_vec());
        for pairs in [&[("x-user", "guest"), ("a", "1")][..], &[("x-user", "admin")], &[("a", "1"), ("b", "2")], &[]] {
            let headers = read(pairs);
            assert_eq!(pattern.of_http(&headers, Some(&head)), pattern.of_http(&headers, None));
        }
    }

    fn read(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn names_are_in_lower_case_where_nothing_else_is_known() {
        let mut headers = HeaderMap::new();
        headers.append("x-one", HeaderValue::from_static("1"));
        headers.append("x-one", HeaderValue::from_bytes(b"\xe9").unwrap());
        let forwarded = HeaderPattern::new(".*").unwrap().of_http(&headers, None);
        assert_eq!(shown(&forwarded), [("x-one", "1"), ("x-one", "é")]);
    }

    #[test]
    fn headers_of_grpc_itself_stay_behind() {
        let names = ["te", "content-type", "grpc-timeout", "user-agent", "mine"];
        let headers =
            names.iter().map(|&name| (HeaderName::from_static(name), HeaderValue::from_static("1"))).collect();
        let forwarded = HeaderPattern::new(".*").unwrap().of_grpc(&headers);
        assert_eq!(shown(&forwarded), [("user-agent", "1"), ("mine", "1")]);
    }

    #[test]
    fn a_pattern_that_can_not_be_read_says_why() {
        assert!(HeaderPattern::new("(unclosed").unwrap_err().contains("unclosed group"));
    }
}
