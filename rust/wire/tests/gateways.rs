//! The listeners of platforms that run containers: what their paths stand for, and how their bodies are told apart.

mod support;

use std::sync::Arc;

use charonia_wire::control::ControlCall;
use charonia_wire::courier::Wakes;
use charonia_wire::gateway::{Alias, Aliases, Gateway};
use charonia_wire::listener::Listener;
use charonia_wire::options::Options;
use charonia_wire::restrict::{PathClass, Restrictions};
use charonia_wire::server::Server;
use charonia_wire::status::Code;
use support::{echo, local, next_call, start, Client, PATIENCE};

const SAGEMAKER: &str = "Content-Type: application/vnd.sagemaker-triton.binary+json;json-header-size=";
const VERTEX_AI: &str = "Content-Type: application/vnd.vertex-ai-triton.binary+json;json-header-size=";

fn serve() -> Server {
    serve_with(|_| {})
}

fn serve_with(change: impl FnOnce(&mut Options)) -> Server {
    let server = start(|options| {
        options.sagemaker = local();
        options.vertex_ai = local();
        change(options);
    });
    let full = vec![("out of memory".to_owned(), 507), (String::new(), 400)];
    let alias = |path: &str, meant: &str, failures: &[(String, u16)]| {
        (path.to_owned(), Arc::new(Alias::new(meant, failures.to_vec()).unwrap()))
    };
    let ping = alias("/ping", "/v2/health/live", &[]);
    let invocations = alias("/invocations", "/v2/models/m/infer", &[]);
    let invoke = alias("/models/x/invoke", "/v2/models/m/infer", &full);
    server.wire.gateways.publish(Gateway::SageMaker, Aliases::from([ping, invocations, invoke]));
    let (health, predict) = (alias("/health", "/v2/health/ready", &[]), alias("/predict", "/v2/models/m/infer", &[]));
    server.wire.gateways.publish(Gateway::VertexAi, Aliases::from([health, predict]));
    server
}

fn clients(server: &Server) -> (Client, Client) {
    let [sagemaker, vertex_ai] =
        Gateway::ALL.map(|gateway| Client::at(server.port(Listener::Gateway(gateway)).unwrap()));
    (sagemaker, vertex_ai)
}

/// JSON for one input of two INT32, and what stands behind it.
fn binary() -> (String, Vec<u8>) {
    let json = r#"{"inputs":[{"name":"A","datatype":"INT32","shape":[2],"parameters":{"binary_data_size":8}}],
        "parameters":{"binary_data_output":true}}"#;
    (json.to_owned(), [json.as_bytes(), &[1, 0, 0, 0, 2, 0, 0, 0]].concat())
}

#[test]
fn health_is_that_of_the_server() {
    let server = serve();
    let (mut sagemaker, mut vertex_ai) = clients(&server);
    assert_eq!(sagemaker.ask("GET /ping", &[], b"").status, 200);
    assert_eq!(sagemaker.ask("POST /ping", &[], b"").status, 405);
    assert_eq!(vertex_ai.ask("GET /health", &[], b"").status, 400);
}

#[test]
fn the_type_of_the_content_tells_json_and_tensors_apart() {
    let server = serve();
    let answering = echo(&server);
    let (mut sagemaker, mut vertex_ai) = clients(&server);
    let (json, body) = binary();
    let told = format!("{SAGEMAKER}{}", json.len());
    let answer = sagemaker.ask("POST /invocations", &[&told, "Accept-Encoding: gzip"], &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let begin = answer.body.len() - 8;
    let expected = format!("{}{begin}", &SAGEMAKER["Content-Type: ".len()..]);
    assert_eq!(answer.header("content-type"), Some(expected.as_str()));
    assert_eq!((answer.header("inference-header-content-length"), answer.header("content-encoding")), (None, None));
    assert_eq!(&answer.body[begin..], &body[json.len()..]);

    let answer = vertex_ai.ask("POST /predict", &[&format!("{VERTEX_AI}{}", json.len())], &body);
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.header("inference-header-content-length"), Some(begin.to_string().as_str()));

    let plain = br#"{"inputs":[{"name":"A","datatype":"INT32","shape":[2],"data":[1,2]}]}"#;
    let answer = sagemaker.ask("POST /models/x/invoke", &["Content-Type: application/json"], plain);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    for wrong in ["-1", "x", "99999999999999999999", "12345"] {
        let answer = sagemaker.ask("POST /invocations", &[&format!("{SAGEMAKER}{wrong}")], &body);
        assert_eq!(answer.status, 400, "{wrong}");
    }
    let answer = vertex_ai.ask("POST /predict", &[&format!("{}{}", VERTEX_AI.replace("app", "x/app"), 1)], &body);
    assert_eq!(answer.status, 400);
    drop(server);
    answering.join().unwrap();
}

#[test]
fn failures_have_the_statuses_that_were_published() {
    let server = serve();
    let mut client = clients(&server).0;
    let plain = br#"{"inputs":[]}"#;
    for (path, code, message, status) in [
        ("/invocations", Code::NOT_FOUND, "not there", 404),
        ("/models/x/invoke", Code::NOT_FOUND, "not there", 400),
        ("/models/x/invoke", Code::INTERNAL, "CUDA out of memory", 507),
    ] {
        client.request(&format!("POST {path}"), &[], plain);
        next_call(&server).fail(code, message, &mut Wakes::default());
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (status, format!("{{\"error\":\"{message}\"}}")), "{path}");
    }
}

#[test]
fn what_stands_for_nothing_goes_to_control() {
    let server = serve();
    let (mut sagemaker, mut vertex_ai) = clients(&server);
    let redirect = "X-Vertex-Ai-Triton-Redirect: v2/repository/index";
    sagemaker.request("POST /v2/models/m/infer", &[], b"{}");
    vertex_ai.request("POST /predict", &[redirect], b"{}");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        for call in server.wire.control.take(2, PATIENCE).0 {
            let ControlCall::Http(call) = call else { panic!("no RPC was sent") };
            seen.push((call.listener.name(), call.path));
        }
    }
    seen.sort_unstable();
    let expected = [("sagemaker", "/v2/models/m/infer"), ("vertex-ai", "/predict")];
    assert_eq!(seen, expected.map(|(listener, path)| (listener, path.to_owned())));
}

#[test]
fn what_is_restricted_is_so_by_whichever_way_it_is_asked_for() {
    let class = |path: &str| PathClass::new(&[path.to_owned()], Some(("X-Key", "secret"))).unwrap();
    let server = serve_with(|options| {
        options.http_restrictions =
            Restrictions::new(vec![class("/v2/models/m/infer"), class("/v2"), class("/models")]);
    });
    let (mut sagemaker, mut vertex_ai) = clients(&server);
    for path in ["/invocations", "/models/x/invoke", "/models", "/%6dodels"] {
        assert_eq!(sagemaker.ask(&format!("POST {path}"), &[], b"{}").status, 403, "{path}");
    }
    assert_eq!(sagemaker.ask("GET /ping", &[], b"").status, 200);
    for redirect in ["v2/models/m/infer", "v2"] {
        let header = format!("X-Vertex-Ai-Triton-Redirect: {redirect}");
        assert_eq!(vertex_ai.ask("POST /predict", &[&header, "X-Key: wrong"], b"{}").status, 403, "{redirect}");
    }
    vertex_ai.request("POST /predict", &["X-Vertex-Ai-Triton-Redirect: v2/models/m/infer", "X-Key: secret"], b"{}");
    next_call(&server);
}

#[test]
fn inferences_are_redirected_to_the_model_that_the_header_names() {
    let server = serve();
    let mut client = clients(&server).1;
    client.request("POST /predict", &["X-Vertex-Ai-Triton-Redirect: v2/models/other/versions/3/infer"], b"{}");
    let call = next_call(&server);
    let parsed = &call.request.parsed;
    assert_eq!((parsed.model_name.as_str(), parsed.model_version.as_str()), ("other", "3"));
    let mut other = clients(&server).1;
    assert_eq!(other.ask("GET /predict", &["X-Vertex-Ai-Triton-Redirect: v2/models/m/infer"], b"").status, 405);
}
