//! Listeners for the platforms that run containers: each has paths of its own, which may stand for paths of HTTP.
//!
//! A path that stands for another is answered as that one. What the platforms have otherwise: the length of the JSON is
//! told in the content type. Every other path of theirs is Python's to answer.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use percent_encoding::percent_decode_str;

use crate::http::route::{route, Route};

/// A body of JSON and tensors has the number of its JSON's bytes behind this.
const SAGEMAKER_BINARY: &str = "application/vnd.sagemaker-triton.binary+json;json-header-size=";
const VERTEX_AI_BINARY: &str = "application/vnd.vertex-ai-triton.binary+json;json-header-size=";

/// A request to infer that is meant for another path of HTTP, without its first slash.
const VERTEX_AI_REDIRECT: HeaderName = HeaderName::from_static("x-vertex-ai-triton-redirect");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    SageMaker,
    VertexAi,
}

impl Gateway {
    pub const ALL: [Self; 2] = [Self::SageMaker, Self::VertexAi];

    pub fn name(self) -> &'static str {
        match self {
            Self::SageMaker => "sagemaker",
            Self::VertexAi => "vertex-ai",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    fn binary_type(self) -> &'static str {
        match self {
            Self::SageMaker => SAGEMAKER_BINARY,
            Self::VertexAi => VERTEX_AI_BINARY,
        }
    }

    /// The type of an answer of JSON and tensors; None where it is told as HTTP does.
    pub fn answer_type(self, json_length: usize) -> Option<String> {
        (self == Self::SageMaker).then(|| format!("{SAGEMAKER_BINARY}{json_length}"))
    }

    /// How many bytes of the body are JSON, None for all. The error is for the client.
    pub fn json_length(self, headers: &HeaderMap) -> Result<Option<usize>, String> {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let expected = self.binary_type();
        match text.find(expected) {
            None => Ok(None),
            Some(0) => {
                let length = text[expected.len()..].trim_end();
                let digits = length.bytes().all(|byte| byte.is_ascii_digit());
                length.parse().ok().filter(|_| digits).map(Some).ok_or_else(|| {
                    format!("json-header-size of the content type must be a number of bytes, got '{length}'")
                })
            }
            Some(_) => Err(format!("the content type of binary data must begin with '{expected}', got '{text}'")),
        }
    }

    /// The path of HTTP that a request is meant for instead of a prediction.
    pub fn redirect(self, headers: &HeaderMap) -> Option<String> {
        let value = headers.get(VERTEX_AI_REDIRECT).filter(|_| self == Self::VertexAi)?;
        // Python reads the same bytes: what is no text must not count as no path, which would need no secret.
        Some(format!("/{}", String::from_utf8_lossy(value.as_bytes())))
    }
}

/// What a path stands for.
#[derive(Clone, Debug)]
pub struct Alias {
    pub uri: Uri,
    /// Statuses of inferences that failed, by words in their messages; the first that is found counts, "" always is.
    /// Without any, they are as for HTTP.
    pub failures: Vec<(String, u16)>,
}

impl Alias {
    pub fn new(path: &str, failures: Vec<(String, u16)>) -> Result<Self, String> {
        let uri = Uri::from_str(path).map_err(|error| format!("'{path}' is no path: {error}"))?;
        Ok(Self { uri, failures })
    }

    pub fn status<'a>(&self, body: impl IntoIterator<Item = &'a Bytes>) -> Option<StatusCode> {
        if self.failures.is_empty() {
            return None;
        }
        let body: Vec<u8> = body.into_iter().flatten().copied().collect();
        let text = String::from_utf8_lossy(&body);
        let (_, status) = self.failures.iter().find(|(words, _)| text.contains(words.as_str()))?;
        StatusCode::from_u16(*status).ok()
    }
}

/// By path as it is meant, percent-decoded.
pub type Aliases = HashMap<String, Arc<Alias>>;

/// Of each gateway, what is published. Nothing stands for anything before that.
#[derive(Default)]
pub struct Gateways([RwLock<Aliases>; 2]);

impl Gateways {
    pub fn publish(&self, gateway: Gateway, aliases: Aliases) {
        *self.0[gateway as usize].write().unwrap_or_else(PoisonError::into_inner) = aliases;
    }

    /// What a request is for; None for one that Python answers by the gateway's own rules.
    pub fn alias(&self, gateway: Gateway, head: &Parts) -> Option<Arc<Alias>> {
        let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
        let aliases = self.0[gateway as usize].read().unwrap_or_else(PoisonError::into_inner);
        let alias = aliases.get(path.as_ref()).map(Arc::clone)?;
        drop(aliases);
        match gateway.redirect(&head.headers) {
            Some(elsewhere) if is_inference(&alias.uri) => redirected(&elsewhere),
            _ => Some(alias),
        }
    }
}

/// Only inferences are decoded here.
fn redirected(path: &str) -> Option<Arc<Alias>> {
    let alias = Alias::new(path, Vec::new()).ok()?;
    is_inference(&alias.uri).then(|| Arc::new(alias))
}

fn is_inference(uri: &Uri) -> bool {
    matches!(route(uri.path()), Route::Infer(_))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn typed(content_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
    }

    fn head(path: &str, redirect: Option<&str>) -> Parts {
        let request = Request::builder().method("POST").uri(path);
        let request = match redirect {
            Some(path) => request.header(VERTEX_AI_REDIRECT, path),
            None => request,
        };
        request.body(()).unwrap().into_parts().0
    }

    fn gateways(gateway: Gateway, path: &str, meant: &str) -> Gateways {
        let gateways = Gateways::default();
        let alias = Alias::new(meant, Vec::new()).unwrap();
        gateways.publish(gateway, Aliases::from([(path.to_owned(), Arc::new(alias))]));
        gateways
    }

    #[test]
    fn the_content_type_tells_how_long_the_json_is() {
        let sagemaker = Gateway::SageMaker;
        assert_eq!(sagemaker.json_length(&HeaderMap::new()), Ok(None));
        assert_eq!(sagemaker.json_length(&typed("application/json")), Ok(None));
        let of = |text| sagemaker.json_length(&typed(text));
        assert_eq!(of("application/vnd.sagemaker-triton.binary+json;json-header-size=12"), Ok(Some(12)));
        assert_eq!(of("application/vnd.sagemaker-triton.binary+json;json-header-size=0"), Ok(Some(0)));
        for wrong in [
            "x/application/vnd.sagemaker-triton.binary+json;json-header-size=12",
            "application/vnd.sagemaker-triton.binary+json;json-header-size=",
            "application/vnd.sagemaker-triton.binary+json;json-header-size=x12",
            "application/vnd.sagemaker-triton.binary+json;json-header-size=-12",
            "application/vnd.sagemaker-triton.binary+json;json-header-size=+12",
            "application/vnd.sagemaker-triton.binary+json;json-header-size=99999999999999999999999",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let other = typed("application/vnd.sagemaker-triton.binary+json;json-header-size=12");
        assert_eq!(Gateway::VertexAi.json_length(&other), Ok(None));
    }

    #[test]
    fn paths_stand_for_others() {
        let gateways = gateways(Gateway::SageMaker, "/models/a b/invoke", "/v2/models/a%20b/infer");
        let meant = |path| gateways.alias(Gateway::SageMaker, &head(path, None)).map(|alias| alias.uri.to_string());
        assert_eq!(meant("/models/a%20b/invoke").as_deref(), Some("/v2/models/a%20b/infer"));
        assert_eq!(meant("/models/%61%20b/invoke").as_deref(), Some("/v2/models/a%20b/infer"));
        assert_eq!(meant("/models/c/invoke"), None);
        assert!(gateways.alias(Gateway::VertexAi, &head("/models/a%20b/invoke", None)).is_none());
    }

    #[test]
    fn only_inferences_are_redirected_here() {
        let infer = gateways(Gateway::VertexAi, "/predict", "/v2/models/m/infer");
        let meant = |redirect| infer.alias(Gateway::VertexAi, &head("/predict", redirect)).map(|a| a.uri.to_string());
        assert_eq!(meant(None).as_deref(), Some("/v2/models/m/infer"));
        assert_eq!(meant(Some("v2/models/n/versions/3/infer")).as_deref(), Some("/v2/models/n/versions/3/infer"));
        for other in ["v2", "metrics", "v2/models/n/ready", "v2/repository/models/n/unload", "", "\t", "//v2"] {
            assert_eq!(meant(Some(other)), None, "{other:?}");
        }
        let health = gateways(Gateway::VertexAi, "/health", "/v2/health/ready");
        let alias = health.alias(Gateway::VertexAi, &head("/health", Some("v2/models/n/infer"))).unwrap();
        assert_eq!(alias.uri.path(), "/v2/health/ready");
    }

    #[test]
    fn a_redirect_that_is_no_ascii_is_a_path_too() {
        for (sent, meant) in [
            (&b"v2/repository/\xff/index"[..], "/v2/repository/\u{fffd}/index"),
            ("v2/models/\u{e9}/config".as_bytes(), "/v2/models/\u{e9}/config"),
        ] {
            let headers = HeaderMap::from_iter([(VERTEX_AI_REDIRECT, HeaderValue::from_bytes(sent).unwrap())]);
            assert_eq!(Gateway::VertexAi.redirect(&headers).as_deref(), Some(meant));
        }
    }

    #[test]
    fn failures_may_have_statuses_of_their_own() {
        let failures = vec![("out of memory".to_owned(), 507), (String::new(), 400)];
        let alias = Alias::new("/v2/models/m/infer", failures).unwrap();
        let status = |body: &'static str| alias.status(&[Bytes::from_static(body.as_bytes())]).map(|one| one.as_u16());
        assert_eq!(status("{\"error\":\"CUDA out of memory\"}"), Some(507));
        assert_eq!(status("{\"error\":\"no\"}"), Some(400));
        assert_eq!(Alias::new("/v2", Vec::new()).unwrap().status(&[Bytes::new()]), None);
    }
}
