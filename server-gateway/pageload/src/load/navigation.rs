//! Prediction of the request that follows a redirect of the page: the same fields with other cookies, and
//! only those that the target may receive.
use http::{HeaderMap, HeaderName, HeaderValue, header};
use longhaul_gateway_core::wall_clock::now;
use longhaul_page::{
    Initiator, Relation, RequestChain,
    jar::{Cookies, Navigation, is_same_site, is_trustworthy},
    predict::{Prediction, referer},
};
use url::Url;

use super::state::LoadState;

/// Fields that apply only to the redirected request.
const OWN: [HeaderName; 6] = [
    header::COOKIE,
    header::AUTHORIZATION,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::VIA,
    header::HOST,
];
/// Client hints that every origin receives; others are sent only to the origin that requested them.
const COMMON_HINTS: [&str; 3] = ["sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform"];
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl LoadState {
    /// Predicts the request for `url`, to which the URLs of `chain` redirected.
    pub(super) fn predict_navigation(&self, url: &Url, chain: &RequestChain) -> Prediction {
        let mut fields = self.request.clone();
        for name in OWN {
            fields.remove(name);
        }
        let way = || std::iter::once(&self.request_url).chain(&chain.redirects);
        // The most distant of the browser's own relation and those of the URLs in the redirect chain.
        let moved = Initiator::page(url, &HeaderMap::new());
        let moved = way()
            .map(|url| moved.relation(url))
            .max()
            .unwrap_or(Relation::SameOrigin);
        if moved != Relation::SameOrigin {
            remove(&mut fields, |name| {
                name.starts_with("sec-ch-") && !COMMON_HINTS.contains(&name)
            });
        }
        let told = fields.get(SEC_FETCH_SITE).and_then(|value| value.to_str().ok());
        let site = told.map(|told| match (told, moved) {
            ("none", _) => "none",
            ("same-origin", moved) => moved.name(),
            ("same-site", Relation::SameOrigin) => Relation::SameSite.name(),
            ("same-site", moved) => moved.name(),
            _ => Relation::CrossSite.name(),
        });
        if is_trustworthy(url) {
            if let Some(site) = site {
                fields.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
            }
        } else {
            remove(&mut fields, |name| {
                name.starts_with("sec-fetch-") || name.starts_with("sec-ch-")
            });
        }
        set_referer(&mut fields, url, chain);
        let navigation = self.navigation(url);
        match self.jar.cookies_of_navigation(url, navigation, now()) {
            Cookies::Known(cookie) => {
                fields.extend(cookie.map(|cookie| (header::COOKIE, cookie)));
                Prediction {
                    fields,
                    is_withheld: false,
                }
            }
            Cookies::Withheld => Prediction {
                fields,
                is_withheld: true,
            },
        }
    }

    /// Returns `CrossSite` unless the request shows that the navigation began on the same site.
    fn navigation(&self, url: &Url) -> Navigation {
        let text = |name: &str| self.request.get(name).and_then(|value| value.to_str().ok());
        let is_own = match text("sec-fetch-site") {
            Some("none") => true,
            Some(site) => site != "cross-site" && is_same_site(&self.request_url, url),
            None => text("referer")
                .and_then(|referer| Url::parse(referer).ok())
                .is_some_and(|referer| is_same_site(&referer, url)),
        };
        if is_own {
            Navigation::SameSite
        } else {
            Navigation::CrossSite
        }
    }
}

fn remove(fields: &mut HeaderMap, is_removed: impl Fn(&str) -> bool) {
    let removed: Vec<_> = fields
        .keys()
        .filter(|name| is_removed(name.as_str()))
        .cloned()
        .collect();
    for name in removed {
        fields.remove(name);
    }
}

/// Applies the referrer policy at each redirect to the `Referer` field.
fn set_referer(fields: &mut HeaderMap, url: &Url, chain: &RequestChain) {
    let Some(told) = fields.remove(header::REFERER) else {
        return;
    };
    let Some(told) = told.to_str().ok().and_then(|told| Url::parse(told).ok()) else {
        return;
    };
    // The policy of the document that began the navigation is unknown; the default reveals little.
    let declared = chain
        .redirect_policy
        .or_else(|| chain.initiator.referrer_policy());
    let policy = declared.unwrap_or_default();
    let mut left = Some(told);
    for target in chain.redirects.iter().chain([url]) {
        left = left.and_then(|told| referer(policy, &told, target)?.parse().ok());
    }
    if let Some(value) = left.and_then(|told| HeaderValue::from_str(told.as_str()).ok()) {
        fields.insert(header::REFERER, value);
    }
}
