//! Whether a pushed response answers a browser's request (architecture section 7).
use http::{HeaderMap, HeaderValue, header};
use longhaul_http::{
    policy::Reload,
    vary::{self, Vary},
};
use longhaul_protocol::session::{EntryHead, Scope};

/// Why it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// A field that `Vary` names differs.
    Vary,
    /// It is for this page alone, and the cookies are not those that were predicted.
    Cookie,
    /// It is not allowed to the origin that asks.
    Origin,
    /// The browser wants it fresher than the page was asked for.
    Reload,
}

/// Judges the response `head` with its `fields`, of a page load that was asked for with `page_reload`, for `request`,
/// whose `Host` is there.
pub(crate) fn fit(
    head: &EntryHead,
    fields: &HeaderMap,
    request: &HeaderMap,
    page_reload: Reload,
    reload: Reload,
) -> Result<(), Misfit> {
    // A browser that loads a page anew asks for its objects as ever, and so does the gateway, unless all is to be new.
    if reload != Reload::None && page_reload != Reload::Bypass {
        return Err(Misfit::Reload);
    }
    if vary::of(fields) == Vary::Any || vary::key(fields, request) != head.vary {
        return Err(Misfit::Vary);
    }
    if head.scope == Scope::ThisPage && vary::cookie_key(request) != head.cookie {
        return Err(Misfit::Cookie);
    }
    if !is_allowed_to(fields, request) {
        return Err(Misfit::Origin);
    }
    Ok(())
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
    use http::HeaderName;
    use longhaul_protocol::session::EntryBody;

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
        let (fields, sent) = (map(response), map(sent));
        let head = EntryHead {
            entry: 0,
            status: 200,
            scope,
            vary: vary::key(&fields, &sent),
            cookie: vary::cookie_key(&sent),
            body: EntryBody::None,
            fields: Vec::new(),
        };
        fit(&head, &fields, &map(request), Reload::None, Reload::None)
    }

    #[test]
    fn cookies_count_for_what_is_of_this_page_and_where_vary_names_them() {
        let (one, two) = ([("cookie", "a=1")], [("cookie", "a=2")]);
        assert_eq!(judge(Scope::ThisPage, &[], &one, &one), Ok(()));
        assert_eq!(judge(Scope::ThisPage, &[], &one, &two), Err(Misfit::Cookie));
        assert_eq!(judge(Scope::ThisPage, &[], &[], &one), Err(Misfit::Cookie));
        assert_eq!(judge(Scope::Reusable, &[], &one, &two), Ok(()));
        let vary = [("vary", "Cookie, Accept-Encoding")];
        assert_eq!(judge(Scope::Reusable, &vary, &one, &two), Err(Misfit::Vary));
        assert_eq!(judge(Scope::Reusable, &vary, &one, &one), Ok(()));
        assert_eq!(
            judge(Scope::Reusable, &[("vary", "*")], &one, &one),
            Err(Misfit::Vary)
        );
    }

    #[test]
    fn one_origins_permission_is_not_anothers() {
        let request = [("origin", "http://site.test"), ("host", "cdn.test")];
        assert_eq!(judge(Scope::Reusable, &[], &[], &request), Err(Misfit::Origin));
        let allowed = |value| {
            judge(
                Scope::Reusable,
                &[("access-control-allow-origin", value)],
                &[],
                &request,
            )
        };
        assert_eq!(allowed("*"), Ok(()));
        assert_eq!(allowed("http://site.test"), Ok(()));
        assert_eq!(allowed("http://other.test"), Err(Misfit::Origin));
        let own = [("origin", "http://cdn.test"), ("host", "cdn.test")];
        assert_eq!(judge(Scope::Reusable, &[], &[], &own), Ok(()));
    }

    #[test]
    fn a_reload_wants_what_was_fetched_by_a_reload() {
        let head = EntryHead {
            entry: 0,
            status: 200,
            scope: Scope::Reusable,
            vary: None,
            cookie: None,
            body: EntryBody::None,
            fields: Vec::new(),
        };
        let judge = |page, request| fit(&head, &HeaderMap::new(), &HeaderMap::new(), page, request);
        assert_eq!(judge(Reload::None, Reload::Bypass), Err(Misfit::Reload));
        assert_eq!(judge(Reload::Revalidate, Reload::Bypass), Err(Misfit::Reload));
        assert_eq!(judge(Reload::Bypass, Reload::Revalidate), Ok(()));
        assert_eq!(judge(Reload::Revalidate, Reload::None), Ok(()));
    }
}
