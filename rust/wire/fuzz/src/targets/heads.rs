//! Paths and headers. The first character says which: '0' a path, '1' the JSON's length, '2' what is accepted,
//! '3' a deadline, '4' gRPC's compression.

use charonia_wire::grpc::{compression, timeout};
use charonia_wire::http::compress;
use charonia_wire::http::infer::{json_length, HEADER_LENGTH};
use charonia_wire::http::route::{route, Route};
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{utf8_percent_encode, NON_ALPHANUMERIC};

pub fn run(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind {
        b'0' => path(bytes),
        b'1' => length(bytes),
        b'2' => {
            let _ = header(ACCEPT_ENCODING, bytes).map(|headers| compress::accepted(&headers));
        }
        b'3' => {
            let _ = header(HeaderName::from_static("grpc-timeout"), bytes).map(|headers| timeout::of_request(&headers));
        }
        b'4' => packing(bytes),
        _ => {}
    }
}

fn header(name: HeaderName, value: &[u8]) -> Option<HeaderMap> {
    let value = HeaderValue::from_bytes(value).ok()?;
    Some([(name, value)].into_iter().collect())
}

/// Any path has a route, and any name has a path.
fn path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match route(text) {
        Route::Infer(target) | Route::ModelReady(target) => {
            assert!(!target.model.is_empty());
            assert!(target.version.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(target.model.len() + target.version.len() < text.len());
        }
        _ => {}
    }
    let name = utf8_percent_encode(text, NON_ALPHANUMERIC);
    match route(&format!("/v2/models/{name}/versions/12/infer")) {
        Route::Infer(target) => assert_eq!((&*target.model, &*target.version), (text, "12")),
        other => assert!(text.is_empty(), "{other:?}"),
    }
}

/// A number is what only digits are, and no more than the machine can count.
fn length(bytes: &[u8]) {
    let Some(headers) = header(HEADER_LENGTH, bytes) else { return };
    let digits = std::str::from_utf8(bytes).unwrap_or_default().trim_matches([' ', '\t']);
    let right = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let expected = digits.parse::<usize>().ok().filter(|_| right);
    match json_length(&headers) {
        Ok(length) => assert_eq!(length, Some(expected.expect("only numbers are read"))),
        Err(answer) => {
            assert_eq!(expected, None);
            assert_eq!(answer.status(), 400);
        }
    }
}

/// Never what the client did not say that it reads.
fn packing(bytes: &[u8]) {
    let Some(mut headers) = header(HeaderName::from_static("grpc-encoding"), bytes) else { return };
    headers.insert("grpc-accept-encoding", headers["grpc-encoding"].clone());
    let asked = compression::of_request(&headers).ok().flatten();
    let packing = compression::Packing::of_answer(asked, None, &headers);
    assert_eq!(packing.map(|packing| packing.coding), asked);
}
