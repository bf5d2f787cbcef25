//! Learned manifests: what the browser asks for beyond the markup, and what of the markup it does not ask for.
//!
//! Two records are kept, one for the page's exact URL and one for its pattern (pages that one template makes).
//! What a page's scripts loaded is planned at its next visit; on other pages of the pattern once two pages have shown
//! it. What was pushed for nothing leaves the plan for a time that doubles with every repetition; a request of the
//! browser brings it back at once.
//!
//! Records tell what one user's browser did: keep them per device, or leave out what is somebody's.
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

/// Whether a value of a URL's query was plainly made at this moment or drawn at random.
pub fn is_volatile(url: &Url, now: UnixTime) -> bool {
    volatile::is_volatile(url.as_str(), now)
}

/// The keys under which the two records of a page are kept (with the device's key in front).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKeys {
    /// Of the exact URL.
    pub page: String,
    /// Of the URL's pattern.
    pub pattern: String,
}

impl RecordKeys {
    /// The keys for a page.
    pub fn of(page: &Url) -> Self {
        let mut exact = page.clone();
        exact.set_fragment(None);
        // The letters keep a page without wild parts apart from its pattern.
        Self {
            page: format!("u {exact}"),
            pattern: format!("p {}", page::pattern(page)),
        }
    }
}

/// A sub-resource to plan although the markup does not name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedRef {
    /// Its URL.
    pub url: Url,
    /// What it is for.
    pub destination: Destination,
}

/// What came of a push that the browser did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Its URL.
    pub url: Url,
    /// Whether the browser may not have asked only because its own cache held it fresh: then nothing is concluded.
    pub held: HeldFresh,
}

/// Whether the browser may hold a fresh version of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFresh {
    /// It may: an earlier response of this URL would still be fresh.
    Possible,
    /// It cannot.
    No,
}

/// One visit of a page that the browser loaded to its end. Do not report visits that were broken off: what was not
/// asked for then says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// What the browser asked for (GET) and no plan had, in the order of asking.
    pub asked_unplanned: &'a [(Url, Destination)],
    /// What was planned and taken.
    pub pushed_used: &'a [Url],
    /// What was planned and not taken.
    pub pushed_unused: &'a [Unused],
    /// When it was.
    pub now: UnixTime,
}

/// What is learned about one page.
#[derive(Clone, Debug)]
pub struct Learned {
    page: Url,
    hash: u32,
    exact: Record,
    pattern: Record,
}

impl Learned {
    /// Nothing known yet.
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

    /// With the records that were kept under the [`RecordKeys`].
    ///
    /// # Errors
    /// A record is damaged or of another version: begin anew without it.
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

    /// What to plan beyond the markup: at most 64 sub-resources, in the order in which browsers asked for them.
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

    /// Whether a sub-resource stays out of the plan although the markup names it: it was pushed for nothing before.
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

    /// Learns from a visit.
    pub fn update(&mut self, visit: &Visit<'_>) {
        let (page, hash) = (self.page.clone(), self.hash);
        // The page's own record has URLs as they are, the pattern's has them with marks.
        self.exact.learn(visit, hash, &|url| page::relative(&page, url));
        self.pattern
            .learn(visit, hash, &|url| page::generalised(&page, url));
    }
}

/// A URL in the form in which a record keeps it.
type Form<'a> = &'a dyn Fn(&Url) -> String;

impl Record {
    fn learn(&mut self, visit: &Visit<'_>, page: u32, form: Form<'_>) {
        let unplanned: Vec<(String, Destination)> = visit
            .asked_unplanned
            .iter()
            .take(MAX_ASKED)
            .filter(|(url, destination)| {
                *destination != Destination::Document && matches!(url.scheme(), "http" | "https")
            })
            .map(|(url, destination)| (form(url), *destination))
            .filter(|(url, _)| url.len() <= MAX_URL)
            .collect();
        let mut asked: BTreeSet<String> = unplanned.iter().map(|(url, _)| url.clone()).collect();
        asked.extend(visit.pushed_used.iter().take(MAX_ASKED).map(form));
        self.lift(&asked);
        self.confirm(&asked, page, visit.now);
        for (url, destination) in unplanned {
            self.add(url, destination, page, visit.now);
        }
        for unused in visit.pushed_unused.iter().take(MAX_ASKED) {
            if unused.held == HeldFresh::No {
                self.strike(hash(&form(&unused.url)), page, visit.now);
            }
        }
        self.expire(visit.now);
    }

    /// The browser asks for it: it belongs to the plan.
    fn lift(&mut self, asked: &BTreeSet<String>) {
        if self.suppressed.is_empty() {
            return;
        }
        let asked: BTreeSet<u64> = asked.iter().map(|url| hash(url)).collect();
        self.suppressed
            .retain(|suppressed| !asked.contains(&suppressed.hash));
    }

    /// Which extras the browser asked for again, and which it asked for with other values in the query.
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

    fn add(&mut self, url: String, destination: Destination, page: u32, now: UnixTime) {
        let shape = volatile::shape(&url);
        let known = self
            .extras
            .iter()
            .any(|extra| extra.url == url || extra.volatile && volatile::shape(&extra.url) == shape);
        if known {
            return;
        }
        if self.extras.len() >= MAX_EXTRAS {
            let Some(worst) = self.least_useful() else { return };
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
    }

    /// The extra to give up for a new one: what was missed most, then what is only kept as a warning. None if all
    /// are as current as the new one.
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
/// Two visits in a row without it: not planned any more.
const MAX_MISSES: u8 = 2;
/// So many visits without it: forgotten.
const FORGOTTEN_MISSES: u8 = 8;
/// Sites change their scripts; what was not seen for so long is not worth a guess.
const MAX_AGE: Duration = Duration::from_secs(60 * 24 * 3600);
/// How long a first useless push keeps a sub-resource out of the plan; every further one doubles it.
const FIRST_BAN: Duration = DAY;
/// At most 64 days.
const MAX_STRIKES: u8 = 6;
/// How long after its end a ban still counts for the next one.
const MEMORY_OF_BANS: Duration = Duration::from_secs(30 * 24 * 3600);
/// As many as a plan has; more of a visit is not looked at.
const MAX_ASKED: usize = 1000;
