//! From the browser's request to what is sent to the gateway.
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request::Parts};
use http_body::Body as _;
use hyper::body::Incoming;
use longhaul_driver::Priority;
use longhaul_http::{
    framing, hop,
    limits::{HeaderLimits, LimitError},
    method::{Repeatability, is_safe_bodyless, repeatability},
    policy::{Reload, reload},
    request_context::{CredentialsSecret, Navigation, RequestContext},
    target::{self, Target},
};
use longhaul_protocol::session::{self, Delivery, FetchKind, HeaderField};
use longhaul_types::ClientId;

use crate::{
    pages::BadRequest,
    session::{FetchContext, FetchDraft, Need},
};

/// A browser's request, judged.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) fetch: FetchDraft,
    pub(super) class: Priority,
    /// What sessions it may travel in.
    pub(super) need: Need,
    /// Whether it may be repeated by us.
    pub(super) repeatability: Repeatability,
    /// For the way around the gateway.
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    /// The browser's fields with `Host`, as the rules of caches need them.
    pub(super) asked: HeaderMap,
    /// Who asks.
    pub(super) context: RequestContext,
    /// How fresh the browser wants the answer.
    pub(super) reload: Reload,
    /// The length of its body, where the browser says so.
    pub(super) length: Option<u64>,
}

/// Bodies up to this go in the class of their request; larger ones must not be in the way of pages.
const SMALL_UPLOAD: u64 = 32 * 1024;

impl Draft {
    /// Judges a request in absolute form of a client; `secret` makes the keys of its credentials.
    pub(super) fn of(
        parts: Parts,
        body: &Incoming,
        client: ClientId,
        secret: &CredentialsSecret,
    ) -> Result<Self, BadRequest> {
        let Parts {
            method,
            uri,
            mut headers,
            version,
            ..
        } = parts;
        let limits = HeaderLimits::default();
        limits.check(&headers).map_err(limit)?;
        let target = target::absolute(&uri).map_err(BadRequest::Target)?;
        limits.check_target(target.path.as_str()).map_err(limit)?;
        framing::request_body(version, &headers).map_err(BadRequest::Framing)?;
        if hop::is_loop(&headers, 0) {
            return Err(BadRequest::Loop);
        }
        let has_body = !body.is_end_stream();
        let length = framing::content_length(&headers).map_err(BadRequest::Framing)?;
        let early =
            is_safe_bodyless(&method, &headers) && !has_body && !headers.contains_key(header::AUTHORIZATION);
        let order: Vec<HeaderName> = headers.keys().cloned().collect();
        hop::strip_request(&mut headers);
        // The agent answers `Expect` itself, and the URL says what `Host` would.
        headers.remove(header::EXPECT);
        headers.remove(header::HOST);
        hop::append_via(&mut headers, version);
        let origin = origin(&target);
        let url = format!("{origin}{}", target.path);
        let context = RequestContext::of(client, secret, &method, &url, &headers);
        let kind = kind(&method, &headers, context.navigation());
        let mut asked = headers.clone();
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if let Some(Ok(host)) = authority.map(HeaderValue::from_str) {
            asked.insert(header::HOST, host);
        }
        Ok(Self {
            reload: reload(&headers),
            asked,
            context,
            class: class(
                kind,
                &headers,
                if has_body { length.unwrap_or(u64::MAX) } else { 0 },
            ),
            need: if early { Need::Early } else { Need::Open },
            repeatability: repeatability(&method),
            uri: url
                .parse()
                .map_err(|_| BadRequest::Target(target::TargetError::BadHost))?,
            fetch: FetchDraft {
                method: method_of(&method),
                url,
                origin,
                fields: fields(&headers, order),
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
        })
    }

    /// Makes it a request of this connection of the browser alone: nothing else may answer it.
    pub(super) const fn bind(&mut self, connection: u64) {
        let context = &mut self.fetch.context;
        context.connection = connection;
        context.delivery = Delivery::Own;
    }

    /// Whether its connection is logged in, or about to be: then its answer is for that connection alone.
    pub(super) const fn is_bound(&self) -> bool {
        self.fetch.context.connection != 0
    }

    /// Whether the agent itself may have the answer, from its cache or a push: it may to a GET without what only an
    /// origin can judge.
    pub(super) fn is_lookable(&self) -> bool {
        let special = ONLY_FOR_ORIGINS
            .iter()
            .any(|name| self.headers.contains_key(name));
        self.method == Method::GET && !self.fetch.has_body && !special && !self.is_bound()
    }
}

static ONLY_FOR_ORIGINS: [HeaderName; 6] = [
    header::AUTHORIZATION,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::UPGRADE,
];

const fn limit(error: LimitError) -> BadRequest {
    match error {
        LimitError::Target(_) => BadRequest::TargetTooLong,
        LimitError::Size(_) | LimitError::Fields(_) | _ => BadRequest::HeaderTooLarge,
    }
}

fn origin(target: &Target) -> String {
    let (scheme, host, port) = (target.scheme.name(), &target.host, target.port);
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    if port == target.scheme.port() {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:{port}")
    }
}

/// A page is what the user navigates to.
fn kind(method: &Method, headers: &HeaderMap, navigation: Navigation) -> FetchKind {
    // A script's request for a piece of HTML, or a guess at the next page: the user goes nowhere by it.
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

fn is_prefetch(purpose: &HeaderValue) -> bool {
    purpose
        .to_str()
        .is_ok_and(|purpose| purpose.starts_with("prefetch"))
}

/// docs/protocol/session.md section 2.
fn class(kind: FetchKind, headers: &HeaderMap, upload: u64) -> Priority {
    const PAGE: Priority = Priority::new(1);
    const RENDER: Priority = Priority::new(2);
    const BULK: Priority = Priority::new(5);
    if upload > SMALL_UPLOAD {
        return BULK;
    }
    let destination = headers.get("sec-fetch-dest").map(HeaderValue::as_bytes);
    let accepts_css = || {
        headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().starts_with(b"text/css"))
    };
    match (kind, destination) {
        (FetchKind::Page, _) => PAGE,
        (FetchKind::Object, Some(b"style" | b"script" | b"font" | b"iframe")) => RENDER,
        (FetchKind::Object, Some(_)) => Priority::NORMAL,
        (FetchKind::Object, None) if accepts_css() => RENDER,
        (FetchKind::Object, None) => Priority::NORMAL,
    }
}

fn method_of(method: &Method) -> session::Method {
    match method.as_str() {
        "GET" => session::Method::Get,
        "HEAD" => session::Method::Head,
        "POST" => session::Method::Post,
        "PUT" => session::Method::Put,
        "DELETE" => session::Method::Delete,
        "OPTIONS" => session::Method::Options,
        "PATCH" => session::Method::Patch,
        other => session::Method::Other(other.to_owned()),
    }
}

/// The fields in the browser's order, which some origins look at; those of the agent behind them. The length of the body
/// is told by its windows.
fn fields(headers: &HeaderMap, mut order: Vec<HeaderName>) -> Vec<HeaderField> {
    let added: Vec<HeaderName> = headers
        .keys()
        .filter(|name| !order.contains(name))
        .cloned()
        .collect();
    order.extend(added);
    order.retain(|name| *name != header::CONTENT_LENGTH);
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
    fn navigations_are_told_from_objects() {
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
    fn classes_follow_what_a_page_waits_for() {
        let of = |destination| class(FetchKind::Object, &map(&[("sec-fetch-dest", destination)]), 0).number();
        assert_eq!((of("style"), of("script"), of("image")), (2, 2, 3));
        assert_eq!(class(FetchKind::Page, &HeaderMap::new(), 0).number(), 1);
        assert_eq!(class(FetchKind::Object, &HeaderMap::new(), 100_000).number(), 5);
        assert_eq!(
            class(FetchKind::Object, &map(&[("accept", "text/css,*/*;q=0.1")]), 0).number(),
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
