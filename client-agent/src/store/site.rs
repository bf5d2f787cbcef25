//! For which site a request is made.
use http::{HeaderMap, header};
use longhaul_protocol::session::FetchKind;

use crate::bundle::{host_of, origin_of};

/// The site under which the answer to a request is kept and looked for, where no page load claims it: the page's own
/// host; for what pages load, the host of their `Referer`. Without `Referer` it is a place of its own beside the host's,
/// or any page could look what is stored for another one's by not sending it.
pub(crate) fn site_of(kind: FetchKind, url: &str, headers: &HeaderMap) -> String {
    let host = host_of(url);
    match kind {
        FetchKind::Page => host.to_owned(),
        FetchKind::Object => {
            let referer = headers
                .get(header::REFERER)
                .and_then(|referer| referer.to_str().ok());
            let referer = referer.filter(|referer| origin_of(referer).is_some());
            referer.map_or_else(
                || format!("-{host}"),
                |referer| host_of(referer).to_ascii_lowercase(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn sites_are_kept_apart() {
        let from = |referer: &'static str| {
            HeaderMap::from_iter([(header::REFERER, HeaderValue::from_static(referer))])
        };
        let object = |headers: &HeaderMap| site_of(FetchKind::Object, "http://cdn.test/lib.js", headers);
        assert_eq!(object(&from("http://A.test:81/page")), "a.test");
        assert_eq!(object(&from("http://b.test/")), "b.test");
        assert_eq!(object(&HeaderMap::new()), "-cdn.test");
        assert_eq!(object(&from("nonsense")), "-cdn.test");
        let page = site_of(FetchKind::Page, "http://cdn.test/", &from("http://b.test/"));
        assert_eq!(page, "cdn.test");
    }
}
