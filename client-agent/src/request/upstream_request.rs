//! Conversion of the browser's request into the upstream request.
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use longhaul_driver::Priority;
use longhaul_http::{
    expectation::is_continue_expected,
    framing, hop_by_hop,
    limits::{HeaderLimits, LimitError},
    method::{Repeatability, is_safe_bodyless, repeatability},
    policy::{Reload, SERVICE_WORKER, reload},
    request_context::{CredentialsSecret, Navigation, RequestContext},
    target::{self, Target},
    url_credentials,
};
use longhaul_session::{self as messages, BoundConnectionId, Delivery, FetchKind, HeaderField, class};
use longhaul_types::ClientId;

use crate::{
    gateway::{FetchContext, FetchDraft, RequiredSessionState},
    pages::BadRequest,
};

/// A validated and classified request of the browser.
#[derive(Clone, Debug)]
pub(super) struct UpstreamRequest {
    pub(super) fetch: FetchDraft,
    pub(super) class: Priority,
    /// The sessions in which the request may be sent.
    pub(super) required_state: RequiredSessionState,
    /// Rule for repetitions of the request by the agent.
    pub(super) repeatability: Repeatability,
    /// For a direct fetch.
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// The browser's fields and `Host`, as cache rules require them.
    pub(super) request_headers: HeaderMap,
    /// Request context (docs/protocol/session.md section 9).
    pub(super) context: RequestContext,
    /// Freshness that the browser requires of the response.
    pub(super) reload: Reload,
    /// Length of the request body, if the browser declares it.
    pub(super) length: Option<u64>,
    /// True if the browser sends the body only once it is asked for.
    pub(super) awaits_continue: bool,
    /// True for a navigation of the user to a page.
    pub(super) is_navigation: bool,
}

/// Maximum size of a body that is sent in the class of its request. Larger bodies must not delay pages.
const SMALL_UPLOAD: u64 = 32 * 1024;

impl UpstreamRequest {
    /// Validates and classifies a request in absolute form; `secret` keys the hash of its credentials. Requests
    /// with cookies may be sent in early data if `allows_early_cookies`. If the hop `is_away`, a page may be answered
    /// later, to another request of the browser.
    pub(super) fn of(
        parts: Parts,
        body: &Incoming,
        client: ClientId,
        secret: &CredentialsSecret,
        allows_early_cookies: bool,
        is_away: bool,
    ) -> Result<Self, BadRequest> {
        let Parts {
            method,
            uri,
            mut headers,
            version,
            ..
        } = parts;
        let limits = HeaderLimits::default();
        let target = target::absolute(&uri).map_err(BadRequest::Target)?;
        url_credentials::move_to_fields(&uri, &mut headers);
        limits.check(&headers).map_err(limit)?;
        limits.check_target(target.path.as_str()).map_err(limit)?;
        framing::request_body(version, &headers).map_err(BadRequest::Framing)?;
        if hop_by_hop::is_loop(&headers, 0) {
            return Err(BadRequest::Loop);
        }
        let length = framing::content_length(&headers).map_err(BadRequest::Framing)?;
        // Some clients of HTTP/2 declare that there is nothing to come, and leave the stream open.
        let has_body = !body.is_end_stream() && length != Some(0);
        let required_state = required_state(&method, &headers, has_body, allows_early_cookies);
        let order: Vec<HeaderName> = headers.keys().cloned().collect();
        hop_by_hop::strip_request(&mut headers);
        // The library that reads HTTP/1.1 asks for the body when it is read first. That of HTTP/2 cannot ask.
        let awaits_continue = has_body && version == Version::HTTP_11 && is_continue_expected(&headers);
        if !awaits_continue {
            headers.remove(header::EXPECT);
        }
        // The URL contains its value.
        headers.remove(header::HOST);
        hop_by_hop::append_via(&mut headers, version);
        let origin = origin(&target);
        let url = format!("{origin}{}", target.path);
        let context = RequestContext::of(client, secret, &method, &url, &headers);
        let kind = kind(&method, &headers, context.navigation());
        if is_away {
            remove_validators(kind, &mut headers);
        }
        let mut request_headers = headers.clone();
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if let Some(Ok(host)) = authority.map(HeaderValue::from_str) {
            request_headers.insert(header::HOST, host);
        }
        Ok(Self {
            is_navigation: kind == FetchKind::Page,
            reload: reload(&headers),
            request_headers,
            context,
            class: class_of(
                kind,
                &headers,
                if has_body { length.unwrap_or(u64::MAX) } else { 0 },
            ),
            required_state,
            repeatability: repeatability(&method),
            uri: url
                .parse()
                .map_err(|_| BadRequest::Target(target::TargetError::BadHost))?,
            fetch: FetchDraft {
                method: method_of(&method),
                url,
                origin,
                fields: fields(&headers, order, awaits_continue),
                kind,
                has_body,
                context: FetchContext {
                    client,
                    ..FetchContext::default()
                },
            },
            method,
            headers,
            length,
            awaits_continue,
        })
    }

    /// Binds the request to this connection of the browser: no other response may answer it.
    pub(super) const fn bind(&mut self, connection: BoundConnectionId) {
        let context = &mut self.fetch.context;
        context.connection = Some(connection);
        context.delivery = Delivery::Own;
    }

    /// Asks the gateway, and whoever is behind it, for the origin's own response (RFC 9111 section 5.2.1.6). A direct
    /// request stays as it is.
    pub(super) fn refuse_transformation(&mut self) {
        let field = (
            header::CACHE_CONTROL.as_str().to_owned(),
            b"no-transform".to_vec(),
        );
        self.fetch.fields.push(field);
    }

    /// True if the request's connection is bound by a login or a login attempt; the response is then only for
    /// this connection.
    pub(super) const fn is_bound(&self) -> bool {
        self.fetch.context.connection.is_some()
    }

    /// True if the request may go direct only to compare times: it has no credentials, which a host may have bound to the
    /// gateway's address, and may be repeated.
    pub(super) fn may_be_held_out(&self) -> bool {
        let has_credentials =
            self.headers.contains_key(header::COOKIE) || self.headers.contains_key(header::AUTHORIZATION);
        self.repeatability == Repeatability::Safe
            && !self.fetch.has_body
            && !self.is_bound()
            && !has_credentials
    }

    /// True if the agent's cache or a push may answer the request: a GET without body and without fields that
    /// only an origin can evaluate.
    pub(super) fn may_be_answered_locally(&self) -> bool {
        let special = ONLY_FOR_ORIGINS
            .iter()
            .any(|name| self.headers.contains_key(name));
        self.method == Method::GET && !self.fetch.has_body && !special && !self.is_bound()
    }
}

/// Returns the sessions in which a request may be sent (docs/protocol/session.md section 3).
fn required_state(
    method: &Method,
    headers: &HeaderMap,
    has_body: bool,
    allows_early_cookies: bool,
) -> RequiredSessionState {
    let is_withheld = headers.contains_key(header::AUTHORIZATION)
        || !allows_early_cookies && headers.contains_key(header::COOKIE);
    if is_safe_bodyless(method, headers) && !has_body && !is_withheld {
        RequiredSessionState::EarlyData
    } else {
        RequiredSessionState::Open
    }
}

static ONLY_FOR_ORIGINS: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::UPGRADE,
    SERVICE_WORKER,
];

const fn limit(error: LimitError) -> BadRequest {
    match error {
        LimitError::Target(_) => BadRequest::TargetTooLong,
        LimitError::Size(_) | LimitError::Fields(_) | _ => BadRequest::HeaderTooLarge,
    }
}

fn origin(target: &Target) -> String {
    format!("{}://{}", target.scheme.name(), target.host_field())
}

/// A page is the target of a top-level navigation with GET.
fn kind(method: &Method, headers: &HeaderMap, navigation: Navigation) -> FetchKind {
    // A script's request for an HTML fragment, or a prefetch of the next page: neither is a navigation of the
    // user.
    let aside = headers.contains_key("x-requested-with")
        || ["purpose", "sec-purpose"]
            .iter()
            .any(|name| headers.get(*name).is_some_and(is_prefetch));
    if navigation == Navigation::TopLevel && !aside && *method == Method::GET {
        FetchKind::Page
    } else {
        FetchKind::Object
    }
}

/// Removes the validators of a page that the browser holds: an answer "304 Not Modified" would be useless to another
/// request. Agent and gateway have validators of their own. Other requests keep theirs: a script may depend on them,
/// and a precondition such as `If-Match` protects data of the site.
fn remove_validators(kind: FetchKind, headers: &mut HeaderMap) {
    if kind == FetchKind::Page {
        headers.remove(header::IF_NONE_MATCH);
        headers.remove(header::IF_MODIFIED_SINCE);
    }
}

fn is_prefetch(purpose: &HeaderValue) -> bool {
    purpose
        .to_str()
        .is_ok_and(|purpose| purpose.starts_with("prefetch"))
}

/// Priority class of the request (docs/protocol/session.md section 2).
fn class_of(kind: FetchKind, headers: &HeaderMap, upload: u64) -> Priority {
    if upload > SMALL_UPLOAD {
        return class::BULK;
    }
    let destination = headers.get("sec-fetch-dest").map(HeaderValue::as_bytes);
    let accepts_css = || {
        headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().starts_with(b"text/css"))
    };
    match (kind, destination) {
        (FetchKind::Page, _) => class::PAGE,
        (FetchKind::Object, Some(b"style" | b"script" | b"font" | b"iframe")) => class::RENDER,
        (FetchKind::Object, None) if accepts_css() => class::RENDER,
        (FetchKind::Object, _) => class::OBJECT,
    }
}

fn method_of(method: &Method) -> messages::Method {
    match method.as_str() {
        "GET" => messages::Method::Get,
        "HEAD" => messages::Method::Head,
        "POST" => messages::Method::Post,
        "PUT" => messages::Method::Put,
        "DELETE" => messages::Method::Delete,
        "OPTIONS" => messages::Method::Options,
        "PATCH" => messages::Method::Patch,
        other => messages::Method::Other(other.to_owned()),
    }
}

/// Fields in the browser's order, which some origins check, followed by the agent's fields. `Content-Length`
/// is omitted, because `Body` contains the length, except if `Body` follows later.
fn fields(headers: &HeaderMap, mut order: Vec<HeaderName>, awaits_continue: bool) -> Vec<HeaderField> {
    let added: Vec<HeaderName> = headers
        .keys()
        .filter(|name| !order.contains(name))
        .cloned()
        .collect();
    order.extend(added);
    order.retain(|name| awaits_continue || *name != header::CONTENT_LENGTH);
    let of_name = |name: &HeaderName| -> Vec<HeaderField> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect()
    };
    order.iter().flat_map(of_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_validators_of_pages_are_removed() {
        let sent = map(&[("if-none-match", "\"a\""), ("if-match", "\"b\"")]);
        let mut page = sent.clone();
        remove_validators(FetchKind::Page, &mut page);
        assert_eq!(page, map(&[("if-match", "\"b\"")]));
        // An upload, or a request of a script.
        let mut object = sent.clone();
        remove_validators(FetchKind::Object, &mut object);
        assert_eq!(object, sent);
    }

    #[test]
    fn navigations_are_distinguished_from_objects() {
        let page = HeaderMap::new();
        assert_eq!(kind(&Method::GET, &page, Navigation::TopLevel), FetchKind::Page);
        assert_eq!(
            kind(&Method::POST, &page, Navigation::TopLevel),
            FetchKind::Object
        );
        assert_eq!(kind(&Method::GET, &page, Navigation::Frame), FetchKind::Object);
        assert_eq!(kind(&Method::GET, &page, Navigation::None), FetchKind::Object);
        for aside in [
            ("x-requested-with", "XMLHttpRequest"),
            ("sec-purpose", "prefetch;prerender"),
        ] {
            let fields = map(&[aside]);
            assert_eq!(
                kind(&Method::GET, &fields, Navigation::TopLevel),
                FetchKind::Object
            );
        }
    }

    #[test]
    fn withheld_credentials_are_not_in_early_data() {
        let (plain, cookie) = (HeaderMap::new(), map(&[("cookie", "session=1")]));
        let login = map(&[("authorization", "Basic eA==")]);
        for (headers, allows_cookies, expected) in [
            (&plain, true, RequiredSessionState::EarlyData),
            (&plain, false, RequiredSessionState::EarlyData),
            (&cookie, true, RequiredSessionState::EarlyData),
            (&cookie, false, RequiredSessionState::Open),
            (&login, true, RequiredSessionState::Open),
            (&login, false, RequiredSessionState::Open),
        ] {
            assert_eq!(
                required_state(&Method::GET, headers, false, allows_cookies),
                expected
            );
            assert_eq!(
                required_state(&Method::POST, headers, true, allows_cookies),
                RequiredSessionState::Open
            );
        }
    }

    #[test]
    fn priority_classes_follow_what_the_page_waits_for() {
        let of =
            |destination| class_of(FetchKind::Object, &map(&[("sec-fetch-dest", destination)]), 0).number();
        assert_eq!((of("style"), of("script"), of("image")), (2, 2, 3));
        assert_eq!(class_of(FetchKind::Page, &HeaderMap::new(), 0).number(), 1);
        assert_eq!(
            class_of(FetchKind::Object, &HeaderMap::new(), 100_000).number(),
            5
        );
        assert_eq!(
            class_of(FetchKind::Object, &map(&[("accept", "text/css,*/*;q=0.1")]), 0).number(),
            2
        );
    }

    #[test]
    fn origins_keep_ports_that_are_not_the_schemes() {
        let of = |uri: &str| origin(&target::absolute(&uri.parse().unwrap()).unwrap());
        assert_eq!(of("http://A.test/x"), "http://a.test");
        assert_eq!(of("http://a.test:80/x"), "http://a.test");
        assert_eq!(of("https://a.test:8443/"), "https://a.test:8443");
        assert_eq!(of("http://[::1]:81/"), "http://[::1]:81");
    }
}
