//! Whether a pushed response answers a browser's request (architecture section 7).
use http::{HeaderMap, HeaderValue, header};
use longhaul_http::{
    policy::Reload,
    request_context::{RequestContext, identity_key},
    vary::{self, Vary},
};
use longhaul_protocol::session::{EntryHead, Scope};

/// Why it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// A field that `Vary` names differs.
    Vary,
    /// Relation, mode or destination differ: the origin might have answered otherwise.
    Shape,
    /// It was fetched with other credentials.
    Credentials,
    /// It is not allowed to the origin that asks.
    Origin,
    /// The browser wants it fresher than the page was asked for.
    Reload,
}

/// A browser's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Its fields, `Host` among them.
    pub(crate) headers: &'a HeaderMap,
    /// Who asks.
    pub(crate) context: &'a RequestContext,
    /// How fresh it wants the answer.
    pub(crate) reload: Reload,
    /// Whether a style sheet of the page asks, and not its document.
    pub(crate) by_sheet: bool,
}

/// Judges the response `head` with its `fields`, of a page load that was asked for with `page_reload`.
pub(crate) fn fit(
    head: &EntryHead,
    fields: &HeaderMap,
    asked: Asked<'_>,
    page_reload: Reload,
) -> Result<(), Misfit> {
    let request = asked.headers;
    // A browser that loads a page anew asks for its objects as ever, and so does the gateway, unless all is to be new.
    if asked.reload != Reload::None && page_reload != Reload::Bypass {
        return Err(Misfit::Reload);
    }
    if vary::of(fields) == Vary::Any || vary::key(fields, request) != head.vary {
        return Err(Misfit::Vary);
    }
    if head.shape != asked.context.shape().code() {
        return Err(Misfit::Shape);
    }
    if !has_credentials_of(head, asked) {
        return Err(Misfit::Credentials);
    }
    if !is_allowed_to(fields, request) {
        return Err(Misfit::Origin);
    }
    Ok(())
}

/// What was fetched without credentials is for whoever the page's document is; anything else for the same credentials,
/// and where a style sheet asks, which may be part of other pages, too, for nobody.
fn has_credentials_of(head: &EntryHead, asked: Asked<'_>) -> bool {
    match (head.scope, head.cookie) {
        (Scope::ThisPage, cookie) => {
            vary::cookie_key(asked.headers) == cookie && !(asked.by_sheet && cookie.is_some())
        }
        (Scope::Reusable, None) => true,
        (Scope::Reusable, cookie) => !asked.by_sheet && identity_key(asked.headers) == cookie,
    }
}

/// A request that names its origin gets only what was allowed to that origin, to all, or comes from it: the origin of
/// the response may never have been asked on behalf of another.
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
    use longhaul_protocol::session::EntryBody;
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
    ) -> Result<(), Misfit> {
        let (fields, sent, request) = (map(response), map(sent), map(request));
        let context = context_of(&request);
        let head = EntryHead {
            entry: 0,
            status: 200,
            scope,
            vary: vary::key(&fields, &sent),
            shape: 0,
            cookie: match scope {
                Scope::ThisPage => vary::cookie_key(&sent),
                Scope::Reusable => identity_key(&sent),
            },
            body: EntryBody::None,
            fields: Vec::new(),
        };
        let head = EntryHead {
            shape: context_of(&sent).shape().code(),
            ..head
        };
        let asked = Asked {
            headers: &request,
            context: &context,
            reload: Reload::None,
            by_sheet: false,
        };
        fit(&head, &fields, asked, Reload::None)
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
    fn what_was_fetched_with_credentials_is_for_the_same() {
        let (one, two) = ([("cookie", "a=1")], [("cookie", "a=2")]);
        let misfit = Err(Misfit::Credentials);
        assert_eq!(judge(Scope::ThisPage, &[], &one, &one), Ok(()));
        assert_eq!(judge(Scope::ThisPage, &[], &one, &two), misfit);
        assert_eq!(judge(Scope::ThisPage, &[], &[], &one), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &one, &one), Ok(()));
        assert_eq!(judge(Scope::Reusable, &[], &one, &two), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &one, &[]), misfit);
        assert_eq!(judge(Scope::Reusable, &[], &[], &one), Ok(()));
        let counted = [("cookie", "a=1; _ga=GA1.1.2")];
        assert_eq!(judge(Scope::Reusable, &[], &one, &counted), Ok(()));
        let vary = [("vary", "Cookie, Accept-Encoding")];
        assert_eq!(judge(Scope::Reusable, &vary, &one, &two), Err(Misfit::Vary));
        assert_eq!(judge(Scope::Reusable, &vary, &one, &one), Ok(()));
        assert_eq!(
            judge(Scope::Reusable, &[("vary", "*")], &one, &one),
            Err(Misfit::Vary)
        );
    }

    #[test]
    fn a_request_of_another_shape_gets_nothing() {
        let image = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        let script = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
        assert_eq!(judge(Scope::Reusable, &[], &image, &image), Ok(()));
        assert_eq!(judge(Scope::Reusable, &[], &image, &script), Err(Misfit::Shape));
        let (own, other) = (
            [("referer", "http://cdn.test/")],
            [("referer", "http://evil.test/")],
        );
        assert_eq!(judge(Scope::Reusable, &[], &own, &own), Ok(()));
        assert_eq!(judge(Scope::Reusable, &[], &own, &other), Err(Misfit::Shape));
    }

    #[test]
    fn one_origins_permission_is_not_anothers() {
        let request = [("origin", "http://site.test"), ("host", "cdn.test")];
        assert_eq!(
            judge(Scope::Reusable, &[], &request, &request),
            Err(Misfit::Origin)
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
        assert_eq!(allowed("http://other.test"), Err(Misfit::Origin));
        let own = [("origin", "http://cdn.test"), ("host", "cdn.test")];
        assert_eq!(judge(Scope::Reusable, &[], &own, &own), Ok(()));
    }

    #[test]
    fn a_reload_wants_what_was_fetched_by_a_reload() {
        let head = EntryHead {
            entry: 0,
            status: 200,
            scope: Scope::Reusable,
            vary: None,
            shape: 0,
            cookie: None,
            body: EntryBody::None,
            fields: Vec::new(),
        };
        let context = context_of(&HeaderMap::new());
        let judge = |page, reload| {
            let asked = Asked {
                headers: &HeaderMap::new(),
                context: &context,
                reload,
                by_sheet: false,
            };
            fit(&head, &HeaderMap::new(), asked, page)
        };
        assert_eq!(judge(Reload::None, Reload::Bypass), Err(Misfit::Reload));
        assert_eq!(judge(Reload::Revalidate, Reload::Bypass), Err(Misfit::Reload));
        assert_eq!(judge(Reload::Bypass, Reload::Revalidate), Ok(()));
        assert_eq!(judge(Reload::Revalidate, Reload::None), Ok(()));
    }
}
