//! Which handler a path belongs to. Model names are percent-decoded here, after the path was split.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A model as the path names it; version "" when the path has none.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub model: String,
    pub version: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Live,
    Ready,
    ModelReady(Target),
    Infer(Target),
    /// Looks like one of the above, but has no name that is UTF-8, or something else where the version stands.
    NotFound,
    /// Has this where the version stands, which is not a number.
    NoVersion(String),
    Control,
}

/// Paths that are not the wire's own (`/v2/models/{m}[/versions/{v}]/infer|ready`, `/v2/health/live|ready`) go to control.
pub fn route(path: &str) -> Route {
    let Some(rest) = path.strip_prefix("/v2/") else { return Route::Control };
    let Some(rest) = rest.strip_prefix("models/") else {
        return match rest {
            "health/live" => Route::Live,
            "health/ready" => Route::Ready,
            _ => Route::Control,
        };
    };
    let Some((owner, verb)) = rest.rsplit_once('/') else { return Route::Control };
    let kind = match verb {
        "infer" => Route::Infer,
        "ready" => Route::ModelReady,
        _ => return Route::Control,
    };
    target(owner).map_or_else(|missing| missing, kind)
}

/// `{m}` or `{m}/versions/{v}`.
fn target(owner: &str) -> Result<Target, Route> {
    let (name, version) = match owner.split_once('/') {
        None => (owner, ""),
        Some((name, rest)) => (name, rest.strip_prefix("versions/").map(number).ok_or(Route::NotFound)??),
    };
    match percent_decode_str(name).decode_utf8().map(Cow::into_owned) {
        Ok(model) if !model.is_empty() => Ok(Target { model, version: version.to_owned() }),
        _ => Err(Route::NotFound),
    }
}

fn number(text: &str) -> Result<&str, Route> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        _ if text.is_empty() || text.contains('/') => Err(Route::NotFound),
        true => Ok(text),
        false => Err(Route::NoVersion(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::{route, Route, Target};

    fn target(model: &str, version: &str) -> Target {
        Target { model: model.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn own_paths_are_known() {
        assert_eq!(route("/v2/health/live"), Route::Live);
        assert_eq!(route("/v2/health/ready"), Route::Ready);
        assert_eq!(route("/v2/models/m/infer"), Route::Infer(target("m", "")));
        assert_eq!(route("/v2/models/m/versions/12/infer"), Route::Infer(target("m", "12")));
        assert_eq!(route("/v2/models/m/ready"), Route::ModelReady(target("m", "")));
    }

    #[test]
    fn names_are_decoded_after_splitting() {
        assert_eq!(route("/v2/models/a%2Fb%20c/infer"), Route::Infer(target("a/b c", "")));
        assert_eq!(route("/v2/models/%ff/infer"), Route::NotFound);
    }

    #[test]
    fn versions_that_are_no_numbers_do_not_exist() {
        assert_eq!(route("/v2/models/m/versions/x/infer"), Route::NoVersion("x".to_owned()));
        assert_eq!(route("/v2/models/m/versions/-1/ready"), Route::NoVersion("-1".to_owned()));
        assert_eq!(route("/v2/models/m/versions/1/x/ready"), Route::NotFound);
        assert_eq!(route("/v2/models/m/versions//ready"), Route::NotFound);
        assert_eq!(route("/v2/models/m/other/1/ready"), Route::NotFound);
        assert_eq!(route("/v2/models//infer"), Route::NotFound);
    }

    #[test]
    fn everything_else_is_control() {
        for path in ["/v2", "/v2/", "/v2/models/m/infer/", "/v2/health/live/", "/metrics", "/v2/models/infer", "/", "*"]
        {
            assert_eq!(route(path), Route::Control, "{path}");
        }
    }
}
