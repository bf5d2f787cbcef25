//! Learned plans: the objects that the browser requests beyond the markup, and those of the markup that it
//! does not request.
//!
//! Each page has two records: one for its exact URL and one for its pattern (pages of one template). Objects
//! that a page's scripts loaded are planned at its next visit, and on other pages of the pattern once two
//! pages have shown them. An object that was pushed and not used leaves the plan for a time that doubles with
//! each repetition; a request of the browser restores it at once. In records that all devices use, this needs two devices
//! that did not use the object.
//!
//! A host that could not be reached is remembered for a day by one request to it. The next load of the page plans that
//! request, so that it shows early whether the host is back.
//!
//! Records reveal one user's browsing: keep them per device, or omit private data.
mod lesson;
mod page;
mod record;
mod request_form;
#[cfg(test)]
mod tests;
mod volatile;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use longhaul_types::{ContentHash, UnixTime};
use url::Url;

use self::record::{Extra, MAX_EXTRAS, Record, Suppressed};
pub use self::{
    record::RecordError,
    request_form::{LiteralRequest, RequestForm},
};
use crate::Destination;

/// Returns true if a query value of the URL is evidently a current time or a random number.
pub fn is_volatile(url: &Url, now: UnixTime) -> bool {
    volatile::is_volatile(url.as_str(), now)
}

/// Storage keys of the two records of a page; the caller prefixes them with the device's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKeys {
    /// Key of the record for the exact URL.
    pub page: String,
    /// Key of the record for the URL's pattern.
    pub pattern: String,
}

impl RecordKeys {
    /// Returns the keys of a page.
    pub fn of(page: &Url) -> Self {
        let mut exact = page.clone();
        exact.set_fragment(None);
        // The prefixes distinguish a page without wildcards from its pattern.
        Self {
            page: format!("u {exact}"),
            pattern: format!("p {}", page::pattern(page)),
        }
    }
}

/// A subresource to plan although the markup does not refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedRef {
    /// URL of the subresource.
    pub url: Url,
    /// Destination of the subresource.
    pub destination: Destination,
    /// Mode, credentials mode and referrer policy of the request.
    pub form: RequestForm,
}

/// A request of a device, by keyed hashes: of what devices asked for, records contain nothing else until two devices
/// have asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// Keyed hash of the URL.
    pub url: u64,
    /// Keyed hash of the device.
    pub device: u64,
    /// The request, if its URL stands in the document of the page. Then other devices may be told it whose documents
    /// contain the URL, too.
    pub literal: Option<LiteralRequest>,
}

/// The devices whose visits a record contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teachers {
    /// One device: what it does not request is not planned for it, for a time.
    OneDevice,
    /// All devices: what two of them did not use is no longer planned until a browser requests it.
    AllDevices,
}

/// Number of devices that asked for a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witnesses {
    /// No other device is known to have asked for it.
    One,
    /// Another device has asked for it, too.
    Two,
}

/// A pushed object that the browser did not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// URL of the object.
    pub url: Url,
    /// `Possible` if the browser's own cache may have held a fresh version; then nothing is learned.
    pub held: HeldFresh,
}

/// Possibility that the browser's cache holds a fresh version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFresh {
    /// An earlier response of this URL would still be fresh.
    Possible,
    /// No fresh version can exist.
    No,
}

/// One visit of a page that the browser loaded completely. Do not report aborted visits: objects that were
/// not requested then reveal nothing.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// Objects that the browser requested (GET) and no plan contained, in the order of the requests.
    pub asked_unplanned: &'a [LearnedRef],
    /// Requests to be planned only for visits that get a body, too, with the body's keyed hash.
    pub asked_behind: &'a [(LearnedRef, u64)],
    /// Objects that the browser requested, planned or not, and whose hosts cannot be reached.
    pub asked_absent: &'a [LearnedRef],
    /// Objects that were planned and used.
    pub pushed_used: &'a [Url],
    /// Objects that were planned and not used.
    pub pushed_unused: &'a [Unused],
    /// The devices whose visits the record contains. Of [`Teachers::AllDevices`], `pushed_unused` are the objects that two
    /// devices did not use.
    pub teachers: Teachers,
    /// Time of the visit.
    pub now: UnixTime,
}

/// Requests of a visit that the record of the page does not contain afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Unlearned {
    /// Number of requests whose URLs are too long.
    pub too_long: usize,
    /// Number of requests for which the record has no room.
    pub no_room: usize,
}

/// Learned plan of one page.
#[derive(Clone, Debug)]
pub struct Learned {
    page: Url,
    hash: u32,
    exact: Record,
    pattern: Record,
}

impl Learned {
    /// Creates an empty learned plan.
    pub fn new(page: &Url) -> Self {
        let mut page = page.clone();
        page.set_fragment(None);
        Self {
            hash: u32::try_from(hash(page.as_str()) >> 32).unwrap_or_default(),
            page,
            exact: Record::default(),
            pattern: Record::default(),
        }
    }

    /// Reads the records that were stored under the [`RecordKeys`].
    ///
    /// # Errors
    /// `RecordError` if a record is damaged or of another version: start without it.
    pub fn read(page: &Url, exact: Option<&[u8]>, pattern: Option<&[u8]>) -> Result<Self, RecordError> {
        let mut learned = Self::new(page);
        if let Some(bytes) = exact {
            learned.exact = Record::decode(bytes)?;
        }
        if let Some(bytes) = pattern {
            learned.pattern = Record::decode(bytes)?;
        }
        Ok(learned)
    }

    /// The record for [`RecordKeys::page`], at most 114 KiB.
    pub fn page_record(&self) -> Vec<u8> {
        self.exact.encode()
    }

    /// The record for [`RecordKeys::pattern`], at most 114 KiB.
    pub fn pattern_record(&self) -> Vec<u8> {
        self.pattern.encode()
    }

    /// Returns the objects to plan beyond the markup: at most 512, in the order in which browsers requested
    /// them.
    pub fn extras(&self, now: UnixTime) -> Vec<LearnedRef> {
        let found = self.current(now, |extra| extra.body.is_none());
        found.into_iter().map(|(_, asked)| asked).collect()
    }

    /// Returns the objects to plan for visits that get a body, by the body's keyed hash.
    pub fn behind(&self, now: UnixTime) -> BTreeMap<u64, Vec<LearnedRef>> {
        let mut behind: BTreeMap<u64, Vec<LearnedRef>> = BTreeMap::new();
        for (body, asked) in self.current(now, |extra| extra.body.is_some()) {
            if let Some(body) = body {
                behind.entry(body).or_default().push(asked);
            }
        }
        behind
    }

    /// The extras of a kind that are planned at this time, with their bodies.
    fn current(&self, now: UnixTime, is_of_kind: impl Fn(&Extra) -> bool) -> Vec<(Option<u64>, LearnedRef)> {
        let mut found: Vec<(Option<u64>, LearnedRef)> = Vec::new();
        let of_page = self.exact.extras.iter();
        let of_pattern = self.pattern.extras.iter().filter(|extra| extra.evidence.of_more);
        let volatile: BTreeSet<String> = self
            .exact
            .extras
            .iter()
            .chain(&self.pattern.extras)
            .filter(|extra| extra.volatile)
            .map(|extra| volatile::shape(&extra.url))
            .collect();
        for extra in of_page.chain(of_pattern) {
            if !is_of_kind(extra) || !extra.is_current(now) || volatile.contains(&volatile::shape(&extra.url))
            {
                continue;
            }
            let Some(url) = page::specialised(&self.page, &extra.url) else {
                continue;
            };
            let known = found.iter().any(|(_, other)| other.url == url);
            if !known && url != self.page && !self.suppressed(&url, now) && found.len() < MAX_EXTRAS {
                let asked = LearnedRef {
                    url,
                    destination: extra.destination,
                    form: extra.form,
                };
                found.push((extra.body, asked));
            }
        }
        found
    }

    /// Returns true if a subresource is excluded from the plan although the markup refers to it, because it
    /// was pushed and not used before.
    pub fn suppressed(&self, url: &Url, now: UnixTime) -> bool {
        let of_page = hash(&page::relative(&self.page, url));
        let of_pattern = hash(&page::generalised(&self.page, url));
        let ban = |list: &[Suppressed], hash| {
            let ban = list
                .iter()
                .find(|suppressed| suppressed.hash == hash && suppressed.until > now);
            ban.map(|suppressed| suppressed.evidence)
        };
        ban(&self.exact.suppressed, of_page).is_some()
            || ban(&self.pattern.suppressed, of_pattern).is_some_and(|evidence| evidence.of_more)
    }

    /// Records that a device asked for a URL. Once another device has asked for it as well, the record no longer
    /// contains the testimony: learn the request then.
    pub fn testify(&mut self, testimony: Testimony, now: UnixTime) -> Witnesses {
        self.exact.testify(testimony, now)
    }

    /// Removes the testimonies about these URLs, by their keyed hashes.
    pub fn retract(&mut self, urls: &BTreeSet<u64>) {
        self.exact.retract(urls);
    }

    /// Records that a device asked for a URL that stands in the page's document, and that may be told only to devices whose
    /// documents contain it, however many asked for it.
    pub fn remember_literal(&mut self, testimony: Testimony, now: UnixTime) {
        self.exact.remember_literal(testimony, now);
    }

    /// The requests for URLs that stand in the page's document, by the keyed hashes of the URLs.
    pub fn literals(&self, now: UnixTime) -> BTreeMap<u64, LiteralRequest> {
        self.exact.literals(now).collect()
    }

    /// Learns from a visit. Returns what the page's own record does not contain.
    pub fn update(&mut self, visit: &Visit<'_>) -> Unlearned {
        let (page, hash) = (self.page.clone(), self.hash);
        // The page's own record contains plain URLs, the pattern's record contains URLs with marks.
        let unlearned = self.exact.learn(visit, hash, &|url| page::relative(&page, url));
        let _of_pattern = self
            .pattern
            .learn(visit, hash, &|url| page::generalised(&page, url));
        unlearned
    }
}

fn hash(text: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&ContentHash::of(text.as_bytes()).as_bytes()[..8]);
    u64::from_be_bytes(bytes)
}

/// Sites change their scripts; an object that was not requested for this time is not worth a guess.
const MAX_AGE: Duration = Duration::from_secs(60 * 24 * 3600);
