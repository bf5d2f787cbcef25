//! Forms of browsers: their fields arrive in the body of a POST and count as part of the query, so that an order has one
//! form.
use std::time::Duration;

use http::{HeaderMap, Method, Request, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;
use url::form_urlencoded;

/// Maximum size of a form: an invite has less than 1 KiB.
const MAX_FORM: usize = 4 * 1024;
/// Maximum time for a form, which comes from this machine.
const FORM_TIME: Duration = Duration::from_secs(10);

/// Returns the request without its body; the fields of a form are appended to the query. A form that is too large or not
/// valid counts as empty.
pub(super) async fn with_fields<B>(request: Request<B>) -> Request<()>
where
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::POST && is_form(&parts.headers) {
        let body = timeout(FORM_TIME, Limited::new(body, MAX_FORM).collect()).await;
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes());
        let fields = body.as_deref().and_then(|body| std::str::from_utf8(body).ok());
        if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
            let path = parts.uri.path();
            let query = parts
                .uri
                .query()
                .map_or_else(String::new, |query| format!("{query}&"));
            if let Ok(uri) = format!("{path}?{query}{fields}").parse() {
                parts.uri = uri;
            }
        }
    }
    Request::from_parts(parts, ())
}

fn is_form(headers: &HeaderMap) -> bool {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|media| media.to_str().ok());
    media.is_some_and(|media| media.starts_with("application/x-www-form-urlencoded"))
}

/// The fields of a query, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn of(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The value of a field; `None` if it is absent or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(of, value)| of == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn query(form: &str, uri: &str) -> Option<String> {
        let request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(bytes::Bytes::copy_from_slice(form.as_bytes())));
        let request = with_fields(request.unwrap()).await;
        request.uri().query().map(str::to_owned)
    }

    #[tokio::test]
    async fn the_fields_of_a_form_are_part_of_the_query() {
        assert_eq!(
            query("name=a.test&images=low", "/rules/set").await.as_deref(),
            Some("name=a.test&images=low")
        );
        assert_eq!(query("b=2", "/x?a=1").await.as_deref(), Some("a=1&b=2"));
        assert_eq!(query("", "/x").await, None);
        assert_eq!(query(&"x".repeat(MAX_FORM + 1), "/x").await, None);
        assert_eq!(query("a b", "/x").await, None, "not encoded");
    }

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::of("name=+a.test%20&images=&x=1");
        assert_eq!(fields.get("name"), Some(" a.test "));
        assert_eq!((fields.get("images"), fields.get("y")), (None, None));
    }
}
