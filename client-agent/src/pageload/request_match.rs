//! The rules by which an entry's response answers a browser's request (docs/protocol/session.md section 7.3).
use http::{HeaderMap, HeaderValue, header};
use longhaul_http::{
    policy::Reload,
    request_context::{RequestContext, identity_key},
    vary::{self, Vary},
};
use longhaul_session::{EntryHead, Scope};

/// Reason why a response does not answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MismatchReason {
    /// A field that `Vary` names differs.
    Vary,
    /// Relation, mode or destination differ: the origin might have answered differently.
    Shape,
    /// The response was fetched with other credentials.
    Credentials,
    /// The response does not allow the requester's origin.
    Origin,
    /// The browser requires a fresher response than the page's fetch did.
    Reload,
}

/// A browser's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserRequest<'a> {
    /// Request fields, including `Host`.
    pub(crate) headers: &'a HeaderMap,
    /// Request context (docs/protocol/session.md section 9).
    pub(crate) context: &'a RequestContext,
    /// Freshness that the browser requires.
    pub(crate) reload: Reload,
    /// True if the requester is a style sheet of the page and not its document.
    pub(crate) by_style_sheet: bool,
}

/// Checks the response `head` with its `fields`; `page_reload` is the reload mode of the page load.
pub(crate) fn match_response(
    head: &EntryHead,
    fields: &HeaderMap,
    browser: BrowserRequest<'_>,
    page_reload: Reload,
) -> Result<(), MismatchReason> {
    let request = browser.headers;
    // A browser that revalidates a page requests its objects normally, and so does the gateway; only a reload
    // that bypasses caches applies to the objects, too.
    if browser.reload != Reload::None && page_reload != Reload::Bypass {
        return Err(MismatchReason::Reload);
    }
    if vary::of(fields) == Vary::Any || vary::key(fields, request) != head.vary {
        return Err(MismatchReason::Vary);
    }
    if head.shape != browser.context.shape().code() {
        return Err(MismatchReason::Shape);
    }
    if !has_credentials_of(head, browser) {
        return Err(MismatchReason::Credentials);
    }
    if !is_allowed_to(fields, request) {
        return Err(MismatchReason::Origin);
    }
    Ok(())
}

/// A response fetched without credentials answers any request of the page's document. Every other response
/// requires equal credentials and never answers a request of a style sheet, which may also belong to other
/// pages.
fn has_credentials_of(head: &EntryHead, browser: BrowserRequest<'_>) -> bool {
    match (head.scope, head.cookie) {
        (Scope::ThisPage, cookie) => {
            identity_key(browser.headers) == cookie && !(browser.by_style_sheet && cookie.is_some())
        }
        (Scope::Reusable, None) => true,
        (Scope::Reusable, cookie) => !browser.by_style_sheet && identity_key(browser.headers) == cookie,
    }
}

/// A request with `Origin` gets only responses that allow its origin or all origins, or that come from the
/// origin itself: the gateway may have fetched the response without naming the requester's origin.
fn is_allowed_to(fields: &HeaderMap, request: &HeaderMap) -> bool {
    let Some(origin) = request.get(header::ORIGIN) else {
        return true;
    };
    let mut allowed = fields
        .get_all(header::ACCESS_CONTROL_ALLOW_ORIGIN)
        .iter()
        .peekable();
    if allowed.peek().is_none() {
        return is_own(origin, request.get(header::HOST));
    }
    allowed.all(|value| value == origin || value == "*")
}

fn is_own(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    let host = host.and_then(|host| host.to_str().ok());
    authority
        .zip(host)
        .is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Method};
    use longhaul_http::request_context::CredentialsSecret;
    use longhaul_session::{EntryBody, EntryId};
    use longhaul_types::ClientId;

    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn judge(
        scope: Scope,
        response: &[(&'static str, &'static str)],
        sent: &[(&'static str, &'static str)],
        request: &[(&'static str, &'static str)],
    ) -> Result<(), MismatchReason> {
        let (fields, sent, request) = (map(response), map(sent), map(request));
        let context = context_of(&request);
        let head = EntryHead {
            entry: EntryId::FIRST,
            status: 200,
            scope,
            vary: vary::key(&fields, &sent),
            shape: 0,
            cookie: identity_key(&sent),
            body: EntryBody::None,
            fields: Vec::new(),
        };
        let head = EntryHead {
            shape: context_of(&sent).shape().code(),
            ..head
        };
        let browser = BrowserRequest {
            headers: &request,
            context: &context,
            reload: Reload::None,
            by_style_sheet: false,
        };
        match_response(&head, &fields, browser, Reload::None)
    }

    fn context_of(request: &HeaderMap) -> RequestContext {
        let secret = CredentialsSecret::derived_from(b"key");
        RequestContext::of(
            ClientId::OWNER,
            &secret,
            &Method::GET,
            "http://cdn.test/x",
            request,
        )
    }

    #[test]
    fn responses_with_credentials_match_only_equal_credentials() {
        let (one, two) = ([("cookie", "a=1")], [("cookie", "a=2")]);
        let misfit = Err(MismatchReason::Credentials);
        assert_eq!(judge(Scope::ThisPage, &[], &one, &one), Ok(()));
        assert_eq!(judge(Scope::ThisPage, &[], &one, &two), misfit);
        assert_eq!(judge(Scope::ThisPage, &[], &[], &one), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &one, &one), Ok(()));
        assert_eq!(judge(Scope::Reusable, &[], &one, &two), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &one, &[]), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &[], &one), Ok(()));
        let counted = [("cookie", "a=1; _ga=GA1.1.2")];
        assert_eq!(judge(Scope::Reusable, &[], &one, &counted), Ok(()));
        assert_eq!(judge(Scope::ThisPage, &[], &one, &counted), Ok(()));
        assert_eq!(
            judge(Scope::ThisPage, &[], &[], &[("cookie", "_ga=GA1.1.2")]),
            Ok(())
        );
        let vary = [("vary", "Cookie, Accept-Encoding")];
        assert_eq!(
            judge(Scope::Reusable, &vary, &one, &two),
            Err(MismatchReason::Vary)
        );
        assert_eq!(judge(Scope::Reusable, &vary, &one, &one), Ok(()));
        assert_eq!(
            judge(Scope::Reusable, &[("vary", "*")], &one, &one),
            Err(MismatchReason::Vary)
        );
    }

    #[test]
    fn a_request_of_another_shape_does_not_match() {
        let image = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        let script = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
        assert_eq!(judge(Scope::Reusable, &[], &image, &image), Ok(()));
        assert_eq!(
            judge(Scope::Reusable, &[], &image, &script),
            Err(MismatchReason::Shape)
        );
        let (own, other) = (
            [("referer", "http://cdn.test/")],
            [("referer", "http://evil.test/")],
        );
        assert_eq!(judge(Scope::Reusable, &[], &own, &own), Ok(()));
        assert_eq!(
            judge(Scope::Reusable, &[], &own, &other),
            Err(MismatchReason::Shape)
        );
    }

    #[test]
    fn cors_permission_of_one_origin_does_not_match_another() {
        let request = [("origin", "http://site.test"), ("host", "cdn.test")];
        assert_eq!(
            judge(Scope::Reusable, &[], &request, &request),
            Err(MismatchReason::Origin)
        );
        let allowed = |value| {
            judge(
                Scope::Reusable,
                &[("access-control-allow-origin", value)],
                &request,
                &request,
            )
        };
        assert_eq!(allowed("*"), Ok(()));
        assert_eq!(allowed("http://site.test"), Ok(()));
        assert_eq!(allowed("http://other.test"), Err(MismatchReason::Origin));
        let own = [("origin", "http://cdn.test"), ("host", "cdn.test")];
        assert_eq!(judge(Scope::Reusable, &[], &own, &own), Ok(()));
    }

    #[test]
    fn a_reload_matches_only_responses_fetched_by_a_reload() {
        let head = EntryHead {
            entry: EntryId::FIRST,
            status: 200,
            scope: Scope::Reusable,
            vary: None,
            shape: 0,
            cookie: None,
            body: EntryBody::None,
            fields: Vec::new(),
        };
        let accepted = HeaderValue::from_static("gzip, deflate");
        let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted)]);
        let context = context_of(&headers);
        let judge = |page, reload| {
            let browser = BrowserRequest {
                headers: &headers,
                context: &context,
                reload,
                by_style_sheet: false,
            };
            match_response(&head, &headers, browser, page)
        };
        assert_eq!(judge(Reload::None, Reload::Bypass), Err(MismatchReason::Reload));
        assert_eq!(
            judge(Reload::Revalidate, Reload::Bypass),
            Err(MismatchReason::Reload)
        );
        assert_eq!(judge(Reload::Bypass, Reload::Revalidate), Ok(()));
        assert_eq!(judge(Reload::Revalidate, Reload::None), Ok(()));
    }
}
