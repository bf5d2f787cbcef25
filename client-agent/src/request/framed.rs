//! Sites that are loaded in frames of others.
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use longhaul_http::{
    request_context::{Navigation, RequestContext, SiteRelation},
    site::SchemefulSite,
};
use longhaul_types::ClientId;
use tokio::time::Instant;

/// How long after its document a frame is taken to ask for things: its scripts may do so for as long as the page is open,
/// which nobody tells, but what a frame loads itself comes in this time on any hop.
const TIME: Duration = Duration::from_secs(10 * 60);
/// Sites at a time. Pages with advertisements frame some twenty.
const MOST: usize = 512;

/// Sites that were lately loaded in frames of other sites.
///
/// A request of a frame's document does not tell under which page it is. With a partition of its own site, whoever frames
/// that site could find out what the user had from it elsewhere. So nothing private is looked up or kept for such a site
/// while it is framed.
#[derive(Debug, Default)]
pub struct FramedSites(Mutex<BTreeMap<(ClientId, SchemefulSite), Instant>>);

impl FramedSites {
    /// Notes a frame's document, and judges any other request: the context in which it may be answered.
    pub(super) fn judge(&self, context: RequestContext, url: &str) -> RequestContext {
        let mut framed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match context.navigation() {
            Navigation::Frame => {
                let target = SchemefulSite::of_url(url);
                if let Some(target) = target.filter(|_| context.relation() == SiteRelation::CrossSite) {
                    framed.retain(|_, since| now.duration_since(*since) < TIME);
                    if framed.len() >= MOST {
                        framed.pop_first();
                    }
                    framed.insert((context.client(), target), now);
                }
                context
            }
            Navigation::TopLevel => context,
            Navigation::None => {
                let site = context.requester().site().cloned();
                let since = site.and_then(|site| framed.get(&(context.client(), site)).copied());
                match since {
                    Some(since) if now.duration_since(since) < TIME => context.without_partition(),
                    Some(_) | None => context,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Method};
    use longhaul_http::request_context::CredentialsSecret;

    use super::*;

    fn context(url: &str, fields: &[(&'static str, &'static str)]) -> RequestContext {
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let secret = CredentialsSecret::derived_from(b"key");
        RequestContext::of(ClientId::OWNER, &secret, &Method::GET, url, &headers)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_framed_site_asks_for_is_kept_for_nobody() {
        let framed = FramedSites::default();
        let (page, picture) = ("https://evil.test/frame", "https://cdn.test/picture.png");
        let frame = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "iframe"),
            ("sec-fetch-site", "cross-site"),
            ("referer", "https://site.test/"),
        ];
        let asks = [
            ("sec-fetch-site", "cross-site"),
            ("referer", "https://evil.test/"),
        ];
        let partition = |framed: &FramedSites| {
            framed
                .judge(context(picture, &asks), picture)
                .partition()
                .cloned()
        };
        assert!(partition(&framed).is_some());
        let document = framed.judge(context(page, &frame), page);
        assert_eq!(
            document.partition().unwrap().to_string(),
            "https://site.test https://evil.test"
        );
        assert_eq!(partition(&framed), None);
        tokio::time::advance(TIME).await;
        assert!(partition(&framed).is_some());
    }
}
