//! What earlier visits of a page taught: records of the cache around [`longhaul_page::learn`].
//!
//! Each client has records of its own. What of a visit is [`Public`](Publicity::Public) also goes to records that all
//! devices plan by, so that the first visit of a page on a device is planned by what others' scripts loaded. What was
//! pushed for nothing is each device's own.
use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, header};
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_page::{
    Destination, Importance, Inserter, Reference, Trust,
    learn::{HeldFresh, Learned, RecordKeys, Unused, Visit},
};
use longhaul_protocol::session::Used;
use longhaul_types::UnixTime;
use url::Url;

use super::{
    plan::{BodyState, Plan},
    publicity::Publicity,
};
use crate::asker::Asker;

/// Unplanned requests of one page load that are learned from: those of a page's scripts, not what it loads all day.
const MAX_UNPLANNED: usize = 256;

/// What is known and noted of one page.
#[derive(Debug)]
pub(crate) struct LearnedPlan {
    page: Url,
    /// Where what this client taught is kept.
    partition: Option<Partition>,
    /// What it taught.
    own: Learned,
    /// What all devices taught.
    shared: Learned,
    /// Whether this visit may teach other devices.
    publicity: Publicity,
    /// Those that were planned.
    extras: BTreeSet<Url>,
    unplanned: Vec<Unplanned>,
}

/// A request of the browser that was not planned.
#[derive(Debug)]
struct Unplanned {
    url: Url,
    destination: Destination,
    /// Known when it is answered.
    publicity: Option<Publicity>,
}

/// What a page load taught, to be kept.
pub(crate) struct Lesson {
    /// The client's records of the page, encoded, under their keys.
    own: Option<[(RecordKey, Vec<u8>); 2]>,
    shared: Option<SharedLesson>,
}

/// What a page load taught that other devices may know.
struct SharedLesson {
    page: Url,
    unplanned: Vec<(Url, Destination)>,
    used: Vec<Url>,
    now: UnixTime,
}

impl LearnedPlan {
    /// What is known about `page` for who asks for it. `publicity` says whether this visit may teach other devices.
    pub(crate) async fn load(cache: Option<&Cache>, asker: &Asker, page: &Url, publicity: Publicity) -> Self {
        let partition = asker.partition();
        let own = match (cache, &partition) {
            (Some(cache), Some(partition)) => read(cache, partition, page).await,
            (None, _) | (_, None) => Learned::new(page),
        };
        let shared = match cache {
            Some(cache) => read(cache, &Partition::Shared, page).await,
            None => Learned::new(page),
        };
        Self {
            page: page.clone(),
            partition,
            own,
            shared,
            // A frame's visit tells who embeds it.
            publicity: publicity.and(Publicity::of_visit(asker)),
            extras: BTreeSet::new(),
            unplanned: Vec::new(),
        }
    }

    /// What scripts of the page loaded before, on this device or another. What only others know of is fetched without
    /// cookies: another device's user must not choose what is asked for in this one's name.
    pub(crate) fn extras(&mut self, now: UnixTime) -> Vec<Reference> {
        let own = self.own.extras(now).into_iter().map(|extra| (extra, Trust::Own));
        let shared = self
            .shared
            .extras(now)
            .into_iter()
            .map(|extra| (extra, Trust::Others));
        let extras: Vec<_> = own
            .chain(shared)
            .filter(|(extra, _)| {
                !self.own.suppressed(&extra.url, now) && self.extras.insert(extra.url.clone())
            })
            .collect();
        extras
            .into_iter()
            .map(|(extra, trust)| {
                let reference = Reference::new(extra.url, extra.destination);
                Reference {
                    // What scripts load blocks no parser.
                    importance: reference.importance.max(Importance::High),
                    inserter: Inserter::Script,
                    trust,
                    ..reference
                }
            })
            .collect()
    }

    /// Whether pushing it to this device was in vain before. Others may load the page with another browser.
    pub(crate) fn is_suppressed(&self, url: &Url, now: UnixTime) -> bool {
        self.own.suppressed(url, now)
    }

    /// The page's own document made the browser ask for what was not planned.
    pub(crate) fn unplanned(&mut self, url: &Url, destination: Destination) {
        if self.unplanned.len() < MAX_UNPLANNED {
            self.unplanned.push(Unplanned {
                url: url.clone(),
                destination,
                publicity: None,
            });
        }
    }

    /// What was not planned is answered.
    pub(crate) fn answered(&mut self, url: &Url, publicity: Publicity) {
        for unplanned in self
            .unplanned
            .iter_mut()
            .filter(|unplanned| unplanned.url == *url)
        {
            // Once personal, always personal.
            unplanned.publicity = Some(unplanned.publicity.unwrap_or(publicity).and(publicity));
        }
    }

    /// Learns from a page load that is over.
    pub(crate) fn learn(&mut self, plan: &Plan, used: &Used, now: UnixTime) -> Lesson {
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
        let asked: Vec<_> = self
            .unplanned
            .iter()
            .map(|unplanned| (unplanned.url.clone(), unplanned.destination))
            .collect();
        self.own.update(&Visit {
            asked_unplanned: &asked,
            pushed_used: &taken,
            pushed_unused: &unused,
            now,
        });
        let own = self.partition.as_ref().map(|partition| {
            let [exact, pattern] = keys(partition, &self.page);
            [
                (exact, self.own.page_record()),
                (pattern, self.own.pattern_record()),
            ]
        });
        Lesson {
            own,
            shared: self
                .publicity
                .is_public()
                .then(|| self.share(plan, taken, unused, now)),
        }
    }

    /// What of it other devices may know. What is added must be public; that what is known already was needed again
    /// tells nothing.
    fn share(&self, plan: &Plan, taken: Vec<Url>, unused: Vec<Unused>, now: UnixTime) -> SharedLesson {
        // What is told to others must not lead them where the page's own documents do not: any device can say anything of a page.
        let documents = plan
            .entries()
            .map(|(_, entry)| &entry.reference.url)
            .filter(|url| !self.extras.contains(*url))
            .chain([&self.page]);
        let hosts: BTreeSet<_> = documents.filter_map(Url::host_str).collect();
        let is_public_url = |url: &Url| {
            let is_known = url.host_str().is_some_and(|host| hosts.contains(host));
            is_known && Publicity::of_url(url, now).is_public()
        };
        let mut unplanned: Vec<_> = self
            .unplanned
            .iter()
            .filter(|unplanned| unplanned.publicity.is_some_and(Publicity::is_public))
            .map(|unplanned| (unplanned.url.clone(), unplanned.destination))
            .collect();
        // What only this device knew, perhaps from visits with cookies.
        let extras = plan.entries().map(|(_, entry)| entry).filter(|entry| {
            let url = &entry.reference.url;
            let is_public = entry.answered().is_some_and(|answered| {
                let was_anonymous = answered.cookie.is_none();
                was_anonymous
                    && Publicity::of(&HeaderMap::new(), answered.status, &answered.headers).is_public()
            });
            is_public && self.extras.contains(url) && taken.contains(url)
        });
        unplanned.extend(extras.map(|entry| (entry.reference.url.clone(), entry.reference.destination)));
        unplanned.retain(|(url, _)| is_public_url(url));
        let held = unused
            .into_iter()
            // The browser may have had it: no reason to stop planning it for others.
            .filter(|unused| unused.held == HeldFresh::Possible)
            .map(|unused| unused.url);
        let asked = self.unplanned.iter().map(|unplanned| unplanned.url.clone());
        SharedLesson {
            page: self.page.clone(),
            used: taken
                .into_iter()
                .chain(held)
                .chain(asked)
                .filter(is_public_url)
                .collect(),
            unplanned,
            now,
        }
    }
}

impl Lesson {
    pub(crate) async fn store(self, cache: &Cache) {
        for (key, record) in self.own.into_iter().flatten() {
            put(cache, &key, record).await;
        }
        if let Some(shared) = self.shared {
            shared.store(cache).await;
        }
    }
}

impl SharedLesson {
    /// Reads the records again, for other devices may have taught something meanwhile.
    async fn store(self, cache: &Cache) {
        let mut learned = read(cache, &Partition::Shared, &self.page).await;
        let before = [learned.page_record(), learned.pattern_record()];
        learned.update(&Visit {
            asked_unplanned: &self.unplanned,
            pushed_used: &self.used,
            // What one browser does not ask for another may need.
            pushed_unused: &[],
            now: self.now,
        });
        let after = [learned.page_record(), learned.pattern_record()];
        let keys = keys(&Partition::Shared, &self.page);
        for ((key, before), after) in keys.into_iter().zip(before).zip(after) {
            if after != before {
                put(cache, &key, after).await;
            }
        }
    }
}

/// The records of a page. A damaged one is as good as none.
async fn read(cache: &Cache, partition: &Partition, page: &Url) -> Learned {
    let [exact, pattern] = keys(partition, page);
    let exact = cache.record(RecordKind::Plan, &exact).await;
    let pattern = cache.record(RecordKind::Plan, &pattern).await;
    Learned::read(page, exact.as_deref(), pattern.as_deref()).unwrap_or_else(|_| Learned::new(page))
}

async fn put(cache: &Cache, key: &RecordKey, record: Vec<u8>) {
    cache.put_record(RecordKind::Plan, key, Bytes::from(record)).await;
}

/// Of the page and of its pattern. They tell what one user's browser did, so they are in a partition of their own; see
/// [`Publicity`] for what is shared.
fn keys(partition: &Partition, page: &Url) -> [RecordKey; 2] {
    let keys = RecordKeys::of(page);
    let origin = page.origin().ascii_serialization();
    [keys.page, keys.pattern].map(|key| RecordKey::new(partition, Some(&origin), key.as_bytes()))
}

/// What a request is for, as far as it tells.
pub(super) fn destination(url: &Url, request: &HeaderMap) -> Destination {
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
