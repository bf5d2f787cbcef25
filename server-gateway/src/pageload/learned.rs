//! Learned plans: cache records of earlier visits of a page, around [`longhaul_page::learn`].
//!
//! Each client has records of its own. The [`Public`](Publicity::Public) part of a visit is also added to
//! records that all devices use, so that the first visit of a page on a device is planned by what scripts
//! loaded elsewhere. Records of unused pushes are per device only.
use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, header};
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_page::{
    CredentialsPermission, Destination, Importance, Inserter, Reference,
    learn::{HeldFresh, Learned, RecordKeys, Unused, Visit},
};
use longhaul_session::Used;
use longhaul_types::UnixTime;
use longhaul_webcache::RequesterIdentity;
use url::Url;

use super::{
    plan::Plan,
    publicity::Publicity,
    refusal::{Refusal, RefusalCounters},
};

/// Maximum number of unplanned requests of a page load that are learned: those of the page's scripts, without
/// the requests that an open page makes all day.
const MAX_UNPLANNED: usize = 256;

/// The learned plan of one page and the observations of this visit.
#[derive(Debug)]
pub(crate) struct LearnedPlan {
    page: Url,
    /// Partition of this client's records.
    partition: Option<Partition>,
    /// Learned from this client's visits.
    own: Learned,
    /// Learned from the visits of all devices.
    shared: Learned,
    /// Publicity of this visit.
    publicity: Publicity,
    /// URLs planned from the records.
    extras: BTreeSet<Url>,
    unplanned: Vec<Unplanned>,
    refused: RefusalCounters,
}

/// A browser request that was not planned.
#[derive(Debug)]
struct Unplanned {
    url: Url,
    destination: Destination,
    /// Known once the request is answered.
    publicity: Option<Publicity>,
}

/// The result of a page load, to be stored.
pub(crate) struct VisitResult {
    /// The client's encoded records of the page, with their keys.
    own: Option<[(RecordKey, Vec<u8>); 2]>,
    shared: Option<SharedLesson>,
}

/// The part of a page load's result that other devices may use.
struct SharedLesson {
    page: Url,
    unplanned: Vec<(Url, Destination)>,
    used: Vec<Url>,
    now: UnixTime,
}

impl LearnedPlan {
    /// Loads the records of `page` for `identity`. `publicity` limits whether this visit may add to the shared
    /// records; `refused` counts what it does not teach.
    pub(crate) async fn load(
        cache: Option<&Cache>,
        identity: &RequesterIdentity,
        page: &Url,
        publicity: Publicity,
        refused: RefusalCounters,
    ) -> Self {
        let partition = identity.partition();
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
            // The visit of a frame would reveal the embedding page.
            publicity: publicity.and(Publicity::of_visit(identity)),
            extras: BTreeSet::new(),
            unplanned: Vec::new(),
            refused,
        }
    }

    /// Objects that scripts of the page loaded in earlier visits, on this device or another. Objects known
    /// only from other devices are fetched without cookies: another device's user must not choose requests
    /// with this user's cookies.
    pub(crate) fn extras(&mut self, now: UnixTime) -> Vec<Reference> {
        let own = self
            .own
            .extras(now)
            .into_iter()
            .map(|extra| (extra, CredentialsPermission::ByCookieRules));
        let shared = self
            .shared
            .extras(now)
            .into_iter()
            .map(|extra| (extra, CredentialsPermission::Never));
        let extras: Vec<_> = own
            .chain(shared)
            .filter(|(extra, _)| {
                !self.own.suppressed(&extra.url, now) && self.extras.insert(extra.url.clone())
            })
            .collect();
        extras
            .into_iter()
            .map(|(extra, credentials)| {
                let reference = Reference::new(extra.url, extra.destination);
                Reference {
                    // Objects loaded by scripts do not block the parser.
                    importance: reference.importance.max(Importance::High),
                    inserter: Inserter::Script,
                    credentials,
                    ..reference
                }
            })
            .collect()
    }

    /// Returns true if pushes of the URL to this device were unused. Other devices may use another browser.
    pub(crate) fn is_suppressed(&self, url: &Url, now: UnixTime) -> bool {
        self.own.suppressed(url, now)
    }

    /// Records a request of the page's own document that was not planned.
    pub(crate) fn unplanned(&mut self, url: &Url, destination: Destination) {
        if self.unplanned.len() < MAX_UNPLANNED {
            self.unplanned.push(Unplanned {
                url: url.clone(),
                destination,
                publicity: None,
            });
        } else {
            self.refused.add(Refusal::TooMany, 1);
        }
    }

    /// Records the publicity of the response to an unplanned request.
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

    /// Learns from a finished page load.
    pub(crate) fn learn(&mut self, plan: &Plan, used: &Used, now: UnixTime) -> VisitResult {
        let is_whole = plan.is_closed() && !plan.has_open() && plan.is_sent();
        let (mut taken, mut unused) = (Vec::new(), Vec::new());
        for (number, entry) in plan.entries() {
            let url = entry.reference.url.clone();
            if used.is_taken(number) || entry.requested.is_some() {
                taken.push(url);
            } else if is_whole && entry.answered().is_some() {
                let held = if entry.pushed == 0 || plan.previous_hash(&url).is_some() {
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
        let unlearned = self.own.update(&Visit {
            asked_unplanned: &asked,
            pushed_used: &taken,
            pushed_unused: &unused,
            now,
        });
        self.refused.add(Refusal::TooLong, unlearned.too_long);
        self.refused.add(Refusal::NoRoom, unlearned.no_room);
        let own = self.partition.as_ref().map(|partition| {
            let [exact, pattern] = keys(partition, &self.page);
            [
                (exact, self.own.page_record()),
                (pattern, self.own.pattern_record()),
            ]
        });
        if !self.publicity.is_public() {
            self.refused.add(Refusal::Page, self.unplanned.len());
            return VisitResult { own, shared: None };
        }
        let shared = Some(self.share(plan, taken, unused, now));
        VisitResult { own, shared }
    }

    /// The part that other devices may use. Additions must be public; the repeated use of a URL that is
    /// already in the shared records reveals nothing.
    fn share(&self, plan: &Plan, taken: Vec<Url>, unused: Vec<Unused>, now: UnixTime) -> SharedLesson {
        // Shared URLs must be on hosts that the page's own documents name: any device can report false
        // subresources of a page.
        let documents = plan
            .entries()
            .map(|(_, entry)| &entry.reference.url)
            .filter(|url| !self.extras.contains(*url))
            .chain([&self.page]);
        let hosts: BTreeSet<_> = documents.filter_map(Url::host_str).collect();
        let judge_url = |url: &Url| {
            if !url.host_str().is_some_and(|host| hosts.contains(host)) {
                Err(Refusal::Host)
            } else if !Publicity::of_url(url, now).is_public() {
                Err(Refusal::Url)
            } else {
                Ok(())
            }
        };
        let is_public_url = |url: &Url| judge_url(url).is_ok();
        let mut unplanned = Vec::new();
        for asked in &self.unplanned {
            let judged = match asked.publicity {
                None => Err(Refusal::Unanswered),
                Some(Publicity::Personal) => Err(Refusal::Exchange),
                Some(Publicity::Public) => judge_url(&asked.url),
            };
            match judged {
                Ok(()) => unplanned.push((asked.url.clone(), asked.destination)),
                Err(reason) => self.refused.add(reason, 1),
            }
        }
        // Objects from this device's own records, which may stem from visits with cookies.
        let extras = plan.entries().map(|(_, entry)| entry).filter(|entry| {
            let url = &entry.reference.url;
            let is_public = entry.answered().is_some_and(|answered| {
                let was_anonymous = answered.cookie.is_none();
                was_anonymous
                    && Publicity::of(&HeaderMap::new(), answered.status, &answered.headers).is_public()
            });
            is_public && self.extras.contains(url) && taken.contains(url)
        });
        let extras = extras.filter(|entry| is_public_url(&entry.reference.url));
        unplanned.extend(extras.map(|entry| (entry.reference.url.clone(), entry.reference.destination)));
        let held = unused
            .into_iter()
            // The browser may have used its own fresh copy: no reason to stop planning the object for others.
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

impl VisitResult {
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
    /// Reads the records again, because other devices may have changed them meanwhile.
    async fn store(self, cache: &Cache) {
        let mut learned = read(cache, &Partition::Shared, &self.page).await;
        let before = [learned.page_record(), learned.pattern_record()];
        // What the shared record refuses, the device's own record refused as well.
        let _unlearned = learned.update(&Visit {
            asked_unplanned: &self.unplanned,
            pushed_used: &self.used,
            // An object that one browser does not request may be needed by another.
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

/// Reads the records of a page. A damaged record counts as absent.
async fn read(cache: &Cache, partition: &Partition, page: &Url) -> Learned {
    let [exact, pattern] = keys(partition, page);
    let exact = cache.record(RecordKind::Plan, &exact).await;
    let pattern = cache.record(RecordKind::Plan, &pattern).await;
    Learned::read(page, exact.as_deref(), pattern.as_deref()).unwrap_or_else(|_| Learned::new(page))
}

async fn put(cache: &Cache, key: &RecordKey, record: Vec<u8>) {
    cache.put_record(RecordKind::Plan, key, Bytes::from(record)).await;
}

/// Keys of the records of the page and of its pattern. The records reveal one user's visits, so they are in
/// the user's partition; see [`Publicity`] for the shared ones.
fn keys(partition: &Partition, page: &Url) -> [RecordKey; 2] {
    let keys = RecordKeys::of(page);
    let origin = page.origin().ascii_serialization();
    [keys.page, keys.pattern].map(|key| RecordKey::new(partition, Some(&origin), key.as_bytes()))
}

/// Destination of a request, from its fields and URL.
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
    fn the_destination_is_inferred_from_the_request() {
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
