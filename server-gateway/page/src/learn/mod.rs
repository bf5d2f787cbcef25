//! Learned plans: the objects that the browser requests beyond the markup, and those of the markup that it
//! does not request.
//!
//! Each page has two records: one for its exact URL and one for its pattern (pages of one template). Objects
//! that a page's scripts loaded are planned at its next visit, and on other pages of the pattern once two
//! pages have shown them. An object that was pushed and not used leaves the plan for a time that doubles with
//! each repetition; a request of the browser restores it at once.
//!
//! Records reveal one user's browsing: keep them per device, or omit private data.
mod page;
mod record;
#[cfg(test)]
mod tests;
mod volatile;

use std::{collections::BTreeSet, time::Duration};

use longhaul_types::{ContentHash, UnixTime};
use url::Url;

pub use self::record::RecordError;
use self::record::{Evidence, Extra, MAX_EXTRAS, MAX_SUPPRESSED, MAX_URL, Record, Suppressed};
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
    pub asked_unplanned: &'a [(Url, Destination)],
    /// Objects that were planned and used.
    pub pushed_used: &'a [Url],
    /// Objects that were planned and not used.
    pub pushed_unused: &'a [Unused],
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

    /// The record for [`RecordKeys::page`], at most 16 KiB.
    pub fn page_record(&self) -> Vec<u8> {
        self.exact.encode()
    }

    /// The record for [`RecordKeys::pattern`], at most 16 KiB.
    pub fn pattern_record(&self) -> Vec<u8> {
        self.pattern.encode()
    }

    /// Returns the objects to plan beyond the markup: at most 64, in the order in which browsers requested
    /// them.
    pub fn extras(&self, now: UnixTime) -> Vec<LearnedRef> {
        let mut found: Vec<LearnedRef> = Vec::new();
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
            let current = extra.misses < MAX_MISSES && extra.seen + MAX_AGE > now;
            if !current || volatile.contains(&volatile::shape(&extra.url)) {
                continue;
            }
            let Some(url) = page::specialised(&self.page, &extra.url) else {
                continue;
            };
            let known = found.iter().any(|other| other.url == url);
            if !known && url != self.page && !self.suppressed(&url, now) && found.len() < MAX_EXTRAS {
                found.push(LearnedRef {
                    url,
                    destination: extra.destination,
                });
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

/// Conversion of a URL to the form that a record stores.
type Form<'a> = &'a dyn Fn(&Url) -> String;

impl Record {
    fn learn(&mut self, visit: &Visit<'_>, page: u32, form: Form<'_>) -> Unlearned {
        let mut unlearned = Unlearned::default();
        let mut unplanned: Vec<(String, Destination)> = visit
            .asked_unplanned
            .iter()
            .take(MAX_ASKED)
            .filter(|(url, destination)| {
                *destination != Destination::Document && matches!(url.scheme(), "http" | "https")
            })
            .map(|(url, destination)| (form(url), *destination))
            .collect();
        let requests = unplanned.len();
        unplanned.retain(|(url, _)| url.len() <= MAX_URL);
        unlearned.too_long = requests - unplanned.len();
        let mut asked: BTreeSet<String> = unplanned.iter().map(|(url, _)| url.clone()).collect();
        asked.extend(visit.pushed_used.iter().take(MAX_ASKED).map(form));
        self.lift(&asked);
        self.confirm(&asked, page, visit.now);
        for (url, destination) in unplanned {
            let is_added = self.add(url, destination, page, visit.now);
            unlearned.no_room += usize::from(!is_added);
        }
        for unused in visit.pushed_unused.iter().take(MAX_ASKED) {
            if unused.held == HeldFresh::No {
                self.strike(hash(&form(&unused.url)), page, visit.now);
            }
        }
        self.expire(visit.now);
        unlearned
    }

    /// Removes the suppression of requested objects.
    fn lift(&mut self, asked: &BTreeSet<String>) {
        if self.suppressed.is_empty() {
            return;
        }
        let asked: BTreeSet<u64> = asked.iter().map(|url| hash(url)).collect();
        self.suppressed
            .retain(|suppressed| !asked.contains(&suppressed.hash));
    }

    /// Updates the extras: those that the browser requested again, and those that it requested with other
    /// query values.
    fn confirm(&mut self, asked: &BTreeSet<String>, page: u32, now: UnixTime) {
        let known: BTreeSet<&str> = self.extras.iter().map(|extra| extra.url.as_str()).collect();
        let new_shapes: BTreeSet<String> = asked
            .iter()
            .filter(|url| !known.contains(url.as_str()))
            .map(|url| volatile::shape(url))
            .collect();
        for extra in &mut self.extras {
            let same_shape = new_shapes.contains(&volatile::shape(&extra.url));
            if asked.contains(&extra.url) {
                extra.misses = 0;
                extra.seen = now;
                extra.evidence.add(page);
            } else if same_shape && extra.evidence.is_of(page) && extra.url.contains('?') {
                extra.volatile = true;
                extra.misses = 0;
                extra.seen = now;
            } else if !extra.volatile {
                extra.misses = extra.misses.saturating_add(1);
            }
        }
    }

    /// Adds an extra, unless it is known. Returns false if there is no room.
    fn add(&mut self, url: String, destination: Destination, page: u32, now: UnixTime) -> bool {
        let shape = volatile::shape(&url);
        let known = self
            .extras
            .iter()
            .any(|extra| extra.url == url || extra.volatile && volatile::shape(&extra.url) == shape);
        if known {
            return true;
        }
        if self.extras.len() >= MAX_EXTRAS {
            let Some(worst) = self.least_useful() else {
                return false;
            };
            self.extras.remove(worst);
        }
        self.extras.push(Extra {
            volatile: volatile::is_volatile(&url, now),
            url,
            destination,
            misses: 0,
            seen: now,
            evidence: Evidence::of(page),
        });
        true
    }

    /// Returns the extra to replace by a new one: the one with the most misses, then a volatile one. `None`
    /// if all are as current as the new one.
    fn least_useful(&self) -> Option<usize> {
        let ranks = self.extras.iter().enumerate();
        let candidates = ranks.filter(|(_, extra)| extra.misses > 0 || extra.volatile);
        let worst = candidates.max_by_key(|(_, extra)| (extra.misses, extra.volatile));
        worst.map(|(index, _)| index)
    }

    fn strike(&mut self, hash: u64, page: u32, now: UnixTime) {
        let known = self
            .suppressed
            .iter()
            .position(|suppressed| suppressed.hash == hash);
        let mut suppressed = match known {
            Some(index) => self.suppressed.remove(index),
            None => Suppressed {
                hash,
                strikes: 0,
                until: now,
                evidence: Evidence::of(page),
            },
        };
        let time = FIRST_BAN.saturating_mul(1 << suppressed.strikes.min(MAX_STRIKES));
        suppressed.strikes = (suppressed.strikes + 1).min(MAX_STRIKES);
        suppressed.until = now + time;
        suppressed.evidence.add(page);
        self.suppressed.push(suppressed);
        if self.suppressed.len() > MAX_SUPPRESSED {
            self.suppressed.remove(0);
        }
    }

    fn expire(&mut self, now: UnixTime) {
        self.extras
            .retain(|extra| extra.misses < FORGOTTEN_MISSES && extra.seen + MAX_AGE > now);
        self.suppressed
            .retain(|suppressed| suppressed.until + MEMORY_OF_BANS > now);
    }
}

fn hash(text: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&ContentHash::of(text.as_bytes()).as_bytes()[..8]);
    u64::from_be_bytes(bytes)
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Consecutive visits without the object after which it is no longer planned.
const MAX_MISSES: u8 = 2;
/// Consecutive visits without the object after which it is removed.
const FORGOTTEN_MISSES: u8 = 8;
/// Sites change their scripts; an object that was not requested for this time is not worth a guess.
const MAX_AGE: Duration = Duration::from_secs(60 * 24 * 3600);
/// Time for which the first useless push excludes a subresource from the plan; each further one doubles it.
const FIRST_BAN: Duration = DAY;
/// Maximum number of doublings: 64 days.
const MAX_STRIKES: u8 = 6;
/// Time after its end during which a suppression counts as a previous one.
const MEMORY_OF_BANS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Size of the largest plan; further objects of a visit are ignored.
const MAX_ASKED: usize = 1000;
