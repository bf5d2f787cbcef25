//! Sites that are loaded in frames of other sites.
use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use longhaul_http::{
    request_context::{Navigation, RequestContext, SiteRelation},
    site::SchemefulSite,
};
use longhaul_types::ClientId;
use tokio::time::Instant;

/// Time after its document for which a frame is assumed to send requests. Its scripts may send requests for
/// as long as the page is open, which the agent cannot detect; the frame's own subresources arrive within
/// this time on any hop.
const FRAME_TIME: Duration = Duration::from_secs(10 * 60);
/// Maximum number of sites. Pages with advertisements frame about twenty.
const MAX_SITES: usize = 512;

/// Sites that were recently loaded in frames of other sites.
///
/// A request from a frame's document does not reveal the page that contains the frame. With a partition of
/// the frame's own site, a page that frames the site could detect what the user loaded from it elsewhere.
/// While a site is framed, nothing private is therefore looked up or stored for it.
#[derive(Debug, Default)]
pub struct FramedSites(Mutex<BTreeMap<(ClientId, SchemefulSite), Instant>>);

impl FramedSites {
    /// Records a frame's document; for any other request, returns the context in which it may be answered.
    pub(crate) fn context_of(&self, context: RequestContext, url: &str) -> RequestContext {
        let mut framed = self.0.lock();
        let now = Instant::now();
        match context.navigation() {
            Navigation::Frame => {
                let target = SchemefulSite::of_url(url);
                if let Some(target) = target.filter(|_| context.relation() == SiteRelation::CrossSite) {
                    framed.retain(|_, since| now.duration_since(*since) < FRAME_TIME);
                    if framed.len() >= MAX_SITES {
                        let oldest = framed.iter().min_by_key(|(_, since)| **since);
                        let oldest = oldest.map(|(site, _)| site.clone());
                        oldest.and_then(|site| framed.remove(&site));
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
                    Some(since) if now.duration_since(since) < FRAME_TIME => context.without_partition(),
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
    async fn requests_of_framed_sites_are_not_stored() {
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
                .context_of(context(picture, &asks), picture)
                .partition()
                .cloned()
        };
        assert!(partition(&framed).is_some());
        let document = framed.context_of(context(page, &frame), page);
        assert_eq!(
            document.partition().unwrap().to_string(),
            "https://site.test https://evil.test"
        );
        assert_eq!(partition(&framed), None);
        tokio::time::advance(FRAME_TIME).await;
        assert!(partition(&framed).is_some());
    }
}
