//! Conversion of a `Fetch` to the request for the origin.
use std::time::Instant;

use http::{HeaderMap, Method, header::AUTHORIZATION};
use longhaul_gateway_core::{
    failure::Failure,
    origin_request::{self, Prepared, RequestLine},
};
use longhaul_http::{field_list, limits::HeaderLimits, method::is_safe_bodyless};
use longhaul_session::{
    FailureReason, Fetch, HeaderField, HeaderSetError, Method as SessionMethod, decode_header_set, decode_url,
};
use longhaul_webcache::{OriginRequest, RequesterIdentity};

use crate::session::context::SessionContext;
pub(super) use longhaul_gateway_core::origin_request::Arrived;

/// Number of Longhaul proxies before the gateway in `Via`: the agent.
const PROXIES_BEFORE: usize = 1;

/// Checks a fetch, restores its URL and derives the request for the origin.
pub(super) fn origin_request(
    context: &SessionContext,
    fetch: &mut Fetch,
    arrived: Arrived,
) -> Result<OriginRequest, Failure> {
    let fields = decode(context, fetch)?;
    let browser = header_map(&fields)?;
    let login = context.logins.client_for(
        fetch.connection,
        &browser,
        &context.gateway.origin,
        Instant::now(),
    );
    let Prepared { parts, browser } = prepare(fetch, browser, arrived)?;
    let who = (context.device, fetch.client);
    let secret = &context.gateway.credentials;
    let mut identity = RequesterIdentity::of(who, secret, &parts.method, &fetch.url, &browser);
    if fetch.unpartitioned {
        identity = identity.without_partition();
    }
    Ok(OriginRequest {
        parts,
        browser,
        identity,
        login,
    })
}

/// Decodes URL and header set, which may serve as a base from now on.
fn decode(context: &SessionContext, fetch: &mut Fetch) -> Result<Vec<HeaderField>, Failure> {
    let mut sets = context.request_sets();
    let url = decode_url(fetch.url_shared, &fetch.url, &fetch.headers, fetch.id, &sets);
    let fields = decode_header_set(&fetch.headers, fetch.id, &sets);
    let (url, fields) = url.and_then(|url| Ok((url, fields?))).map_err(|error| {
        let reason = match error {
            HeaderSetError::UnknownBase => FailureReason::UnknownBase,
            HeaderSetError::BadIndex | HeaderSetError::TooLarge | _ => FailureReason::Malformed,
        };
        Failure::new(reason, error)
    })?;
    (fetch.url_shared, fetch.url) = (0, url);
    // A URL that is too long is rejected below; 256 URLs of the maximum message length would take 64 MiB.
    if HeaderLimits::default().check_target(&fetch.url).is_ok() {
        sets.insert_request(fetch.id, fetch.url.clone(), fields.clone());
    }
    Ok(fields)
}

fn header_map(fields: &[HeaderField]) -> Result<HeaderMap, Failure> {
    field_list::to_map(fields).map_err(|_| {
        Failure::new(
            FailureReason::Malformed,
            "the request has a header field that is not valid",
        )
    })
}

fn prepare(fetch: &Fetch, browser: HeaderMap, arrived: Arrived) -> Result<Prepared, Failure> {
    let method = method(&fetch.method)?;
    if arrived == Arrived::Early {
        check_early(fetch, &method, &browser)?;
    }
    let line = RequestLine {
        method,
        url: &fetch.url,
        has_body: fetch.has_body,
        arrived,
        proxies_before: PROXIES_BEFORE,
    };
    origin_request::prepare(line, browser)
}

/// Checks the rules for early data; see docs/protocol/session.md section 3.
fn check_early(fetch: &Fetch, method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    if fetch.has_body || !is_safe_bodyless(method, headers) || headers.contains_key(AUTHORIZATION) {
        return Err(Failure::new(
            FailureReason::TooEarly,
            "this request must wait for the handshake",
        ));
    }
    Ok(())
}

fn method(method: &SessionMethod) -> Result<Method, Failure> {
    Ok(match method {
        SessionMethod::Get => Method::GET,
        SessionMethod::Head => Method::HEAD,
        SessionMethod::Post => Method::POST,
        SessionMethod::Put => Method::PUT,
        SessionMethod::Delete => Method::DELETE,
        SessionMethod::Options => Method::OPTIONS,
        SessionMethod::Patch => Method::PATCH,
        SessionMethod::Other(token) => Method::from_bytes(token.as_bytes())
            .map_err(|_| Failure::new(FailureReason::Malformed, "the request's method is not a token"))?,
    })
}

#[cfg(test)]
mod tests {
    use longhaul_http::hop_by_hop;
    use longhaul_session::{Delivery, FetchId, FetchKind, HeaderSet};

    use super::*;

    fn fetch(method: SessionMethod, url: &str) -> Fetch {
        Fetch {
            id: FetchId::FIRST,
            method,
            url_shared: 0,
            url: url.to_owned(),
            headers: HeaderSet::default(),
            kind: FetchKind::Page,
            has_body: false,
            held: None,
            page: None,
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: None,
            client: longhaul_types::ClientId::OWNER,
            unpartitioned: false,
            seen: None,
            resume: None,
        }
    }

    fn fields(list: &[(&str, &str)]) -> HeaderMap {
        let fields: Vec<_> = list
            .iter()
            .map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec()))
            .collect();
        header_map(&fields).unwrap()
    }

    fn reason(fetch: &Fetch, headers: HeaderMap, arrived: Arrived) -> FailureReason {
        prepare(fetch, headers, arrived).unwrap_err().reason
    }

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
        let browser = fields(&[
            ("connection", "x-mine"),
            ("x-mine", "1"),
            ("proxy-authorization", "secret"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("host", "other.test"),
            ("accept-encoding", "gzip, deflate"),
            ("via", "1.1 longhaul"),
            ("cookie", "a=1"),
        ]);
        let prepared = prepare(
            &fetch(SessionMethod::Get, "http://a.test/"),
            browser,
            Arrived::Confirmed,
        )
        .unwrap();
        let mut names: Vec<_> = prepared
            .parts
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "cookie", "via"]);
        assert_eq!(
            prepared.parts.headers["accept-encoding"],
            "gzip, deflate, br, zstd"
        );
        assert_eq!(hop_by_hop::times_through(&prepared.parts.headers), 2);
        assert_eq!(prepared.browser["accept-encoding"], "gzip, deflate");
    }

    #[test]
    fn early_data_is_for_safe_requests_without_credentials() {
        let get = fetch(SessionMethod::Get, "http://a.test/");
        let prepared = prepare(&get, fields(&[]), Arrived::Early).unwrap();
        assert_eq!(prepared.parts.headers["early-data"], "1");
        assert!(
            !prepare(&get, fields(&[]), Arrived::Confirmed)
                .unwrap()
                .parts
                .headers
                .contains_key("early-data")
        );
        let with_body = Fetch {
            has_body: true,
            ..get.clone()
        };
        for (fetch, headers) in [
            (&get, fields(&[("authorization", "Basic x")])),
            (&with_body, fields(&[])),
            (&fetch(SessionMethod::Post, "http://a.test/"), fields(&[])),
            (
                &fetch(SessionMethod::Other("TRACE".to_owned()), "http://a.test/"),
                fields(&[]),
            ),
        ] {
            assert_eq!(
                reason(fetch, headers.clone(), Arrived::Early),
                FailureReason::TooEarly
            );
            assert!(prepare(fetch, headers, Arrived::Confirmed).is_ok());
        }
    }

    #[test]
    fn loops_and_malformed_requests_are_refused() {
        let circle = fields(&[("via", "1.1 longhaul, 1.1 longhaul")]);
        let get = fetch(SessionMethod::Get, "http://a.test/");
        assert_eq!(
            reason(&get, circle, Arrived::Confirmed),
            FailureReason::TargetRefused
        );
        let no_method = fetch(SessionMethod::Other("GE T".to_owned()), "http://a.test/");
        assert_eq!(
            reason(&no_method, fields(&[]), Arrived::Confirmed),
            FailureReason::Malformed
        );
        let no_url = fetch(SessionMethod::Get, "http://a.test/ b");
        assert_eq!(
            reason(&no_url, fields(&[]), Arrived::Confirmed),
            FailureReason::BadUrl
        );
        for port in [22, 25, 6667] {
            let other = fetch(SessionMethod::Get, &format!("http://a.test:{port}/"));
            let reason = reason(&other, fields(&[]), Arrived::Confirmed);
            assert_eq!(reason, FailureReason::TargetRefused, "{port}");
        }
        let long = fetch(
            SessionMethod::Get,
            &format!("http://a.test/{}", "x".repeat(40_000)),
        );
        assert_eq!(
            reason(&long, fields(&[]), Arrived::Confirmed),
            FailureReason::BadUrl
        );
        assert!(header_map(&[("a b".to_owned(), Vec::new())]).is_err());
        assert!(header_map(&[("a".to_owned(), b"x\r\ny".to_vec())]).is_err());
    }

    #[test]
    fn a_post_without_body_has_content_length_zero() {
        let post = fetch(SessionMethod::Post, "http://a.test/");
        let prepared = prepare(&post, fields(&[]), Arrived::Confirmed).unwrap();
        assert_eq!(prepared.parts.headers["content-length"], "0");
        let upload = Fetch {
            has_body: true,
            ..post
        };
        let prepared = prepare(&upload, fields(&[("content-length", "77")]), Arrived::Confirmed).unwrap();
        assert!(!prepared.parts.headers.contains_key("content-length"));
    }
}
