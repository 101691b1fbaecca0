//! HTTP over real sockets: what comes in, and what goes back.

mod support;

use std::io::{Read, Write};

use support::{echo, json_body, start, Client};

const INFER: &str = "POST /v2/models/m/infer";

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let bodies: Vec<String> = (0u8..20).map(|value| json_body(&[f32::from(value)])).collect();
    let request =
        |body: &String| format!("{INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    client.send(bodies.iter().map(request).collect::<String>().as_bytes());
    for value in 0..20 {
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains(&format!("\"data\":[{value}.0]")), "{}", answer.text());
    }
}

#[test]
fn chunked_bodies_are_put_together() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    client.send(format!("{INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    for piece in json_body(&[1.5, 2.5]).as_bytes().chunks(7) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()).as_bytes());
    }
    client.send(b"0\r\n\r\n");
    assert!(client.answer().text().contains("\"data\":[1.5,2.5]"));
    assert_eq!(client.infer(&json_body(&[3.0])).status, 200, "the connection goes on");
}

#[test]
fn too_many_small_chunks_are_refused() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    let head = format!("{INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(&[head.as_bytes(), &b"1\r\n \r\n".repeat(65_537)].concat());
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
}

#[test]
fn bodies_over_the_limit_are_refused_and_the_connection_goes_on() {
    let server = start(|options| options.http_max_input_bytes = 1000);
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let answer = client.ask(INFER, &[], &[b' '; 1001]);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("1001 bytes exceeds the maximum allowed input size of 1000"), "{}", answer.text());
    assert!(answer.text().contains("Use --http-max-input-size to increase the limit."));
    assert_eq!(client.infer(&json_body(&[3.0])).status, 200);
}

#[test]
fn chunked_bodies_over_the_limit_are_refused() {
    let server = start(|options| options.http_max_input_bytes = 1000);
    let mut client = Client::new(&server);
    client.send(format!("{INFER} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
    let piece = [b"190\r\n".as_slice(), &[b' '; 400], b"\r\n"].concat();
    client.send(&[piece.repeat(3), b"0\r\n\r\n".to_vec()].concat());
    let answer = client.answer();
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("exceeds the maximum allowed input size"), "{}", answer.text());
}

#[test]
fn a_client_that_waits_for_continue_is_refused_before_it_sends() {
    let server = start(|options| options.http_max_input_bytes = 1000);
    let mut client = Client::new(&server);
    let head = format!("{INFER} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
    client.send(head.as_bytes());
    assert_eq!(client.answer().status, 400);
}

#[test]
fn lies_about_the_header_length_are_refused() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let body = json_body(&[1.0]);
    for lie in ["abc", "-1", "", "1e2", "+5", "9999", "18446744073709551616"] {
        let header = format!("Inference-Header-Content-Length: {lie}");
        let answer = client.ask(INFER, &[&header], body.as_bytes());
        assert_eq!(answer.status, 400, "{lie}");
        assert!(answer.text().contains("Inference-Header-Content-Length"), "{}", answer.text());
    }
    let exact = format!("Inference-Header-Content-Length: {}", body.len());
    assert_eq!(client.ask(INFER, &[&exact], body.as_bytes()).status, 200);
}

#[test]
fn binary_tensors_come_back_as_binary() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    for count in [4_usize, 50_000] {
        let tensor: Vec<u8> = (0..251).cycle().take(count * 4).collect();
        let json = format!(
            r#"{{"parameters":{{"binary_data_output":true}},"inputs":[{{"name":"X","datatype":"INT32","shape":[{count}],"parameters":{{"binary_data_size":{}}}}}]}}"#,
            tensor.len()
        );
        let header = format!("Inference-Header-Content-Length: {}", json.len());
        let answer = client.ask(INFER, &[&header], &[json.as_bytes(), &tensor].concat());
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        let json_length: usize = answer.header("inference-header-content-length").unwrap().parse().unwrap();
        assert_eq!(answer.body[json_length..], tensor);
    }
}

#[test]
fn a_header_length_of_zero_is_a_raw_request() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request(INFER, &["Inference-Header-Content-Length: 0"], b"12345678");
    let call = support::next_call(&server);
    assert!(call.request.parsed.raw && call.request.parsed.binary_default);
    assert_eq!(call.request.parsed.inputs[0].data, b"12345678".as_slice());
}

#[test]
fn malformed_json_reaches_the_engine_as_a_defect() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let deep = "[".repeat(100_000);
    for body in ["", "{", "[]", "null", "{\"inputs\":5}", "\u{0}", deep.as_str()] {
        let answer = client.infer(body);
        assert_eq!(answer.status, 400, "{body:.20}");
        assert!(answer.text().starts_with("{\"error\":\""));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!(client.infer(&json_body(&[1.0])).status, 200);
}

#[test]
fn compressed_requests_are_inflated_within_the_limit() {
    let server = start(|options| options.http_max_input_bytes = 100_000);
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let body = json_body(&[7.0]);
    for (coding, bytes) in [("gzip", gzip(body.as_bytes())), ("deflate", zlib(body.as_bytes()))] {
        let answer = client.ask(INFER, &[&format!("Content-Encoding: {coding}")], &bytes);
        assert!(answer.text().contains("[7.0]"), "{coding}: {}", answer.text());
    }
    let bomb = client.ask(INFER, &["Content-Encoding: gzip"], &gzip(&vec![b' '; 10_000_000]));
    assert_eq!(bomb.status, 400);
    assert!(bomb.text().contains("exceeds the maximum allowed value"), "{}", bomb.text());
    assert_eq!(client.ask(INFER, &["Content-Encoding: gzip"], body.as_bytes()).status, 400, "not gzip at all");
    let unknown = client.ask(INFER, &["Content-Encoding: br"], b"x");
    assert_eq!((unknown.status, unknown.header("accept-encoding")), (501, Some("gzip, deflate")));
}

#[test]
fn answers_are_compressed_when_the_client_asks() {
    let server = start(|_| {});
    let _engine = echo(&server);
    let mut client = Client::new(&server);
    let answer = client.ask(INFER, &["Accept-Encoding: gzip"], json_body(&vec![1.0; 5000]).as_bytes());
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("1.0]}]}"), "{text:.100}");
}

#[test]
fn what_is_no_request_is_answered_and_the_connection_ends() {
    let server = start(|_| {});
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    let lie = format!("{INFER} HTTP/1.1\r\nContent-Length: -5\r\n\r\n");
    let cases =
        [("GET / HTTP/1.1\r\nA b\r\n\r\n", 400), (lie.as_str(), 400), (many.as_str(), 431), (long.as_str(), 414)];
    for (bytes, status) in cases {
        let mut client = Client::new(&server);
        client.send(bytes.as_bytes());
        assert_eq!(client.answer().status, status, "{bytes:.30}");
        assert!(client.is_closed());
    }
}

#[test]
fn health_is_what_was_published() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    let cases = [
        ("GET /v2/health/live", 200),
        ("GET /v2/health/ready", 400),
        ("GET /v2/models/m/ready", 200),
        ("GET /v2/models/m/versions/1/ready", 200),
        ("GET /v2/models/m/versions/01/ready", 200),
        ("GET /v2/models/m/versions/2/ready", 404),
        ("GET /v2/models/m/versions/x/ready", 404),
        ("GET /v2/models/cold/ready", 400),
        ("GET /v2/models/nope/ready", 404),
        ("POST /v2/health/live", 405),
        ("GET /v2/models/m/infer", 405),
    ];
    for (line, status) in cases {
        assert_eq!(client.ask(line, &[], b"").status, status, "{line}");
    }
    assert_eq!(client.ask("OPTIONS /v2/models/m/infer", &[], b"").header("allow"), Some("POST"));
    client.request("HEAD /v2/models/nope/ready", &[], b"");
    let head = client.head();
    assert_eq!(head.status, 404);
    assert_ne!(head.header("content-length"), Some("0"), "as GET would answer, without the body");
    assert_eq!(client.ask("GET /v2/health/live", &[], b"").status, 200, "no body came after HEAD's answer");
}

#[test]
fn paths_that_do_not_exist_are_named() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    let mut said = |asked: &str| {
        let answer = client.ask(asked, &[], b"");
        assert_eq!(answer.status, 404);
        answer.text()
    };
    let text = said("GET /v2/models/%ff/ready");
    assert_eq!(text, r#"{"error":"Not Found: there is no GET /v2/models/%ff/ready"}"#);
    let text = said("POST /v2/models/m/versions/latest/infer");
    assert_eq!(text, r#"{"error":"Not Found: 'latest' is no version number, which has digits only"}"#);
    let text = said(&format!("GET /v2/models//é{}/ready", "a".repeat(300)));
    let shown = format!(r"/v2/models//\\u{{e9}}{}…", "a".repeat(200 - "/v2/models//.".len()));
    assert_eq!(text, format!(r#"{{"error":"Not Found: there is no GET {shown}"}}"#));
}

#[test]
fn nothing_is_live_before_something_is_published() {
    let options = charonia_wire::options::Options { http: support::local(), ..Default::default() };
    let server = charonia_wire::server::Server::new(options);
    server.start().unwrap();
    assert_eq!(Client::new(&server).ask("GET /v2/health/live", &[], b"").status, 400);
}

#[test]
fn a_path_of_percent_signs_names_a_model() {
    let server = start(|_| {});
    let mut client = Client::new(&server);
    client.request("POST /v2/models/a%20b%2Fc/versions/3/infer", &[], json_body(&[1.0]).as_bytes());
    let call = support::next_call(&server);
    assert_eq!(call.request.parsed.model_name, "a b/c");
    assert_eq!(call.request.parsed.model_version, "3");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
