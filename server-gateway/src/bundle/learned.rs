//! What earlier visits of a page on this device taught: records of the cache around [`longhaul_page::learn`].
use bytes::Bytes;
use http::{HeaderMap, header};
use longhaul_cache::{Cache, RecordKind};
use longhaul_page::{
    Destination, Importance, Reference,
    learn::{HeldFresh, Learned, RecordKeys, Unused, Visit},
};
use longhaul_protocol::session::Used;
use longhaul_types::{PublicKey, UnixTime};
use url::Url;

use super::plan::{BodyState, Plan};

/// Unplanned requests of one page load that are learned from: those of a page's scripts, not what it loads all day.
const MAX_UNPLANNED: usize = 256;

/// What is known and noted of one page.
#[derive(Debug)]
pub(crate) struct LearnedPlan {
    page: Url,
    learned: Learned,
    unplanned: Vec<(Url, Destination)>,
}

/// The records of a page, encoded, under their keys.
pub(crate) struct LearnedRecords([(Vec<u8>, Vec<u8>); 2]);

impl LearnedPlan {
    /// What `device` taught about `page`.
    pub(crate) async fn load(cache: Option<&Cache>, device: &PublicKey, page: &Url) -> Self {
        let learned = match cache {
            Some(cache) => {
                let [exact, pattern] = keys(device, page);
                let exact = cache.record(RecordKind::Plan, &exact).await;
                let pattern = cache.record(RecordKind::Plan, &pattern).await;
                // A damaged record is as good as none.
                Learned::read(page, exact.as_deref(), pattern.as_deref()).ok()
            }
            None => None,
        };
        Self {
            page: page.clone(),
            learned: learned.unwrap_or_else(|| Learned::new(page)),
            unplanned: Vec::new(),
        }
    }

    /// What scripts of the page loaded before.
    pub(crate) fn extras(&self, now: UnixTime) -> Vec<Reference> {
        let extras = self.learned.extras(now).into_iter();
        extras
            .map(|extra| {
                let reference = Reference::new(extra.url, extra.destination);
                Reference {
                    // What scripts load blocks no parser.
                    importance: reference.importance.max(Importance::High),
                    ..reference
                }
            })
            .collect()
    }

    /// Whether pushing it was in vain before.
    pub(crate) fn is_suppressed(&self, url: &Url, now: UnixTime) -> bool {
        self.learned.suppressed(url, now)
    }

    /// The browser asked for what was not planned.
    pub(crate) fn unplanned(&mut self, url: &Url, request: &HeaderMap) {
        if self.unplanned.len() < MAX_UNPLANNED {
            self.unplanned.push((url.clone(), destination(url, request)));
        }
    }

    /// Learns from a page load that is over; the records to be kept.
    pub(crate) fn learn(
        &mut self,
        device: &PublicKey,
        plan: &Plan,
        used: &Used,
        now: UnixTime,
    ) -> LearnedRecords {
        let is_whole = plan.is_closed()
            && !plan.has_open()
            && plan.bodies(BodyState::Waiting) == 0
            && plan.bodies(BodyState::Pushing) == 0;
        let (mut taken, mut unused) = (Vec::new(), Vec::new());
        for (number, entry) in plan.entries() {
            let url = entry.reference.url.clone();
            if used.is_taken(number) || entry.asked.is_some() {
                taken.push(url);
            } else if is_whole && entry.answered().is_some() {
                let held = if entry.pushed == 0 || plan.before(&url).is_some() {
                    HeldFresh::Possible
                } else {
                    HeldFresh::No
                };
                unused.push(Unused { url, held });
            }
        }
        self.learned.update(&Visit {
            asked_unplanned: &self.unplanned,
            pushed_used: &taken,
            pushed_unused: &unused,
            now,
        });
        let [exact, pattern] = keys(device, &self.page);
        LearnedRecords([
            (exact, self.learned.page_record()),
            (pattern, self.learned.pattern_record()),
        ])
    }
}

impl LearnedRecords {
    pub(crate) async fn store(self, cache: &Cache) {
        for (key, record) in self.0 {
            cache
                .put_record(RecordKind::Plan, &key, Bytes::from(record))
                .await;
        }
    }
}

/// Of the page and of its pattern. They tell what one user's browser did, so a device's records are its own.
fn keys(device: &PublicKey, page: &Url) -> [Vec<u8>; 2] {
    let keys = RecordKeys::of(page);
    [keys.page, keys.pattern].map(|key| {
        let mut whole = device.as_bytes().to_vec();
        whole.extend_from_slice(key.as_bytes());
        whole
    })
}

/// What a request is for, as far as it tells.
fn destination(url: &Url, request: &HeaderMap) -> Destination {
    let field = |name: &str| {
        request
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    match field("sec-fetch-dest") {
        "style" => return Destination::Style,
        "script" => return Destination::Script,
        "image" => return Destination::Image,
        "font" => return Destination::Font,
        "iframe" | "frame" => return Destination::Frame,
        "manifest" => return Destination::Manifest,
        "empty" => return Destination::Other,
        _ => {}
    }
    let accept = field(header::ACCEPT.as_str());
    let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
    if accept.starts_with("text/html") {
        Destination::Frame
    } else if accept.starts_with("text/css") {
        Destination::Style
    } else if accept.starts_with("image/") {
        Destination::Image
    } else if extension.eq_ignore_ascii_case("js") || extension.eq_ignore_ascii_case("mjs") {
        Destination::Script
    } else if ["woff", "woff2", "ttf", "otf"]
        .iter()
        .any(|font| extension.eq_ignore_ascii_case(font))
    {
        Destination::Font
    } else {
        Destination::Other
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn what_a_request_is_for_shows() {
        for (path, name, value, expected) in [
            ("/x", "sec-fetch-dest", "style", Destination::Style),
            ("/x.js", "sec-fetch-dest", "empty", Destination::Other),
            ("/x", "accept", "text/css,*/*;q=0.1", Destination::Style),
            ("/x.js", "accept", "image/avif,image/webp,*/*", Destination::Image),
            ("/x.JS", "accept", "*/*", Destination::Script),
            ("/x.woff2", "accept", "*/*", Destination::Font),
            ("/x", "accept", "*/*", Destination::Other),
            ("/x", "accept", "text/html,*/*", Destination::Frame),
        ] {
            let url = Url::parse("http://a.test").unwrap().join(path).unwrap();
            let mut request = HeaderMap::new();
            request.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            assert_eq!(destination(&url, &request), expected, "{path} {value}");
        }
    }
}
