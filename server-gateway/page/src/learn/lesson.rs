//! What a record learns from a visit.
use std::{cmp::Reverse, collections::BTreeSet, time::Duration};

use longhaul_types::UnixTime;
use url::Url;

use super::{
    HeldFresh, LearnedRef, LiteralRequest, MAX_AGE, Teachers, Testimony, Unlearned, Unused, Visit, Witnesses,
    hash,
    record::{
        Evidence, Extra, MAX_EXTRAS, MAX_SUPPRESSED, MAX_URL, MAX_WITNESSED, Record, Suppressed, Witnessed,
    },
    volatile,
};
use crate::Destination;

/// Conversion of a URL to the form that a record stores.
pub(super) type Form<'a> = &'a dyn Fn(&Url) -> String;

impl Record {
    /// Learns from a visit of the page with this hash.
    pub(super) fn learn(&mut self, visit: &Visit<'_>, page: u32, form: Form<'_>) -> Unlearned {
        let mut unlearned = Unlearned::default();
        let mut unplanned: Vec<(String, &LearnedRef)> = visit
            .asked_unplanned
            .iter()
            .take(MAX_ASKED)
            .filter(|asked| {
                let is_fetched = matches!(asked.url.scheme(), "http" | "https");
                is_fetched && asked.destination != Destination::Document
            })
            .map(|asked| (form(&asked.url), asked))
            .collect();
        let requests = unplanned.len();
        unplanned.retain(|(url, _)| url.len() <= MAX_URL);
        unlearned.too_long = requests - unplanned.len();
        let absent: Vec<(String, &LearnedRef)> = visit
            .asked_absent
            .iter()
            .take(MAX_ABSENT)
            .map(|asked| (form(&asked.url), asked))
            .filter(|(url, _)| url.len() <= MAX_URL)
            .collect();
        let mut asked: BTreeSet<String> = unplanned.iter().map(|(url, _)| url.clone()).collect();
        asked.extend(visit.pushed_used.iter().take(MAX_ASKED).map(form));
        let unused = visit.pushed_unused.iter().take(MAX_ASKED);
        let unused = unused.filter(|unused| unused.held == HeldFresh::No);
        let unused: Vec<String> = unused.map(|Unused { url, .. }| form(url)).collect();
        self.lift(&asked);
        self.confirm(&asked, page, visit.now, |url| match visit.teachers {
            Teachers::OneDevice => true,
            Teachers::AllDevices => unused.iter().any(|unused| unused == url),
        });
        for (url, asked) in unplanned {
            let is_added = self.add(url, asked, page, visit.now);
            unlearned.no_room += usize::from(!is_added);
        }
        for (asked, body) in visit.asked_behind.iter().take(MAX_ASKED) {
            let url = form(&asked.url);
            if url.len() <= MAX_URL {
                self.add_behind(url, asked, *body, (page, visit.now));
            }
        }
        for (url, asked) in absent {
            self.add_absent(url, asked, page, visit.now);
        }
        for unused in unused {
            self.strike(hash(&unused), page, visit);
        }
        self.expire(visit.now);
        unlearned.no_room += self.fit();
        unlearned
    }

    /// See [`super::Learned::testify`].
    pub(super) fn testify(&mut self, testimony: Testimony, now: UnixTime) -> Witnesses {
        match self.take_witnessed(testimony.url, now) {
            Some(known) if known.device != testimony.device => return Witnesses::Two,
            Some(known) => self.witness(testimony, known.literal, now),
            None => self.witness(testimony, None, now),
        }
        Witnesses::One
    }

    /// See [`super::Learned::remember_literal`].
    pub(super) fn remember_literal(&mut self, testimony: Testimony, now: UnixTime) {
        let known = self.take_witnessed(testimony.url, now);
        self.witness(testimony, known.and_then(|known| known.literal), now);
    }

    /// See [`super::Learned::literals`].
    pub(super) fn literals(&self, now: UnixTime) -> impl Iterator<Item = (u64, LiteralRequest)> {
        let current = self
            .witnessed
            .iter()
            .filter(move |witnessed| witnessed.seen + MAX_AGE > now);
        current.filter_map(|witnessed| Some((witnessed.url, witnessed.literal?)))
    }

    /// See [`super::Learned::retract`].
    pub(super) fn retract(&mut self, urls: &BTreeSet<u64>) {
        self.witnessed.retain(|witnessed| !urls.contains(&witnessed.url));
    }

    /// Removes and returns the testimony about a URL.
    fn take_witnessed(&mut self, url: u64, now: UnixTime) -> Option<Witnessed> {
        self.witnessed.retain(|witnessed| witnessed.seen + MAX_AGE > now);
        let known = self.witnessed.iter().position(|witnessed| witnessed.url == url)?;
        Some(self.witnessed.remove(known))
    }

    /// Adds a testimony; `before` is the request of an earlier one about the URL.
    fn witness(&mut self, testimony: Testimony, before: Option<LiteralRequest>, now: UnixTime) {
        if self.witnessed.len() >= MAX_WITNESSED {
            self.witnessed.remove(0);
        }
        let Testimony { url, device, literal } = testimony;
        self.witnessed.push(Witnessed {
            url,
            device,
            literal: literal.or(before),
            seen: now,
        });
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
    fn confirm(
        &mut self,
        asked: &BTreeSet<String>,
        page: u32,
        now: UnixTime,
        is_missed: impl Fn(&str) -> bool,
    ) {
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
                extra.absent = false;
                extra.evidence.add(page);
            } else if same_shape && extra.evidence.is_of(page) && extra.url.contains('?') {
                extra.volatile = true;
                extra.misses = 0;
                extra.seen = now;
            } else if !extra.volatile && is_missed(&extra.url) {
                extra.misses = extra.misses.saturating_add(1);
            }
        }
    }

    /// Adds an extra, unless it is known. Returns false if there is no room.
    fn add(&mut self, url: String, asked: &LearnedRef, page: u32, now: UnixTime) -> bool {
        if let Some(known) = self.extras.iter_mut().find(|extra| extra.url == url) {
            // An unplanned request of a known extra may be one whose form the plan did not match.
            known.form = asked.form;
            known.body = None;
            return true;
        }
        let shape = volatile::shape(&url);
        if self
            .extras
            .iter()
            .any(|extra| extra.volatile && volatile::shape(&extra.url) == shape)
        {
            return true;
        }
        if self.extras.len() >= MAX_EXTRAS {
            let Some(worst) = self.least_useful(now) else {
                return false;
            };
            self.extras.remove(worst);
        }
        self.extras.push(Extra {
            volatile: volatile::is_volatile(&url, now),
            absent: false,
            body: None,
            url,
            destination: asked.destination,
            form: asked.form,
            misses: 0,
            seen: now,
            evidence: Evidence::of(page),
        });
        true
    }

    /// Adds an extra for visits that get a body, unless it is known for all visits.
    fn add_behind(&mut self, url: String, asked: &LearnedRef, body: u64, (page, now): (u32, UnixTime)) {
        let known = self.extras.iter().find(|extra| extra.url == url);
        let is_for_all = known.is_some_and(|extra| extra.body.is_none());
        if is_for_all || !self.add(url.clone(), asked, page, now) {
            return;
        }
        // A volatile URL of the same shape may be known instead.
        if let Some(extra) = self.extras.iter_mut().find(|extra| extra.url == url) {
            extra.body = Some(body);
            extra.misses = 0;
            extra.seen = now;
        }
    }

    /// Records that the host of a request cannot be reached: one request for each host.
    fn add_absent(&mut self, url: String, asked: &LearnedRef, page: u32, now: UnixTime) {
        let origin = asked.url.origin();
        // URLs of other origins than the page's are absolute, and the page's own host has just answered.
        let is_of_host = |extra: &&mut Extra| {
            let known = Url::parse(&extra.url);
            extra.url == url || extra.absent && known.is_ok_and(|known| known.origin() == origin)
        };
        if let Some(known) = self.extras.iter_mut().find(is_of_host) {
            known.absent = true;
            known.misses = 0;
            known.seen = now;
            known.evidence.add(page);
            return;
        }
        let is_known = self.add(url.clone(), asked, page, now);
        // A volatile URL of the same shape may be known instead.
        if is_known
            && let Some(added) = self.extras.last_mut()
            && added.url == url
        {
            added.absent = true;
        }
    }

    /// Returns the extra to replace by a new one: the one with the most misses, then a volatile one, then the oldest whose
    /// body may not return. `None` if all are as current as the new one.
    fn least_useful(&self, now: UnixTime) -> Option<usize> {
        let is_of_old_body = |extra: &Extra| extra.body.is_some() && extra.seen + DAY < now;
        let ranks = self.extras.iter().enumerate();
        let candidates =
            ranks.filter(|(_, extra)| extra.misses > 0 || extra.volatile || is_of_old_body(extra));
        let worst = candidates.max_by_key(|(_, extra)| (extra.misses, extra.volatile, Reverse(extra.seen)));
        worst.map(|(index, _)| index)
    }

    fn strike(&mut self, hash: u64, page: u32, visit: &Visit<'_>) {
        let known = self
            .suppressed
            .iter()
            .position(|suppressed| suppressed.hash == hash);
        let mut suppressed = match known {
            Some(index) => self.suppressed.remove(index),
            None => Suppressed {
                hash,
                strikes: 0,
                until: visit.now,
                evidence: Evidence::of(page),
            },
        };
        let time = match visit.teachers {
            Teachers::OneDevice => FIRST_BAN.saturating_mul(1 << suppressed.strikes.min(MAX_STRIKES)),
            Teachers::AllDevices => MAX_AGE,
        };
        suppressed.strikes = (suppressed.strikes + 1).min(MAX_STRIKES);
        suppressed.until = visit.now + time;
        suppressed.evidence.add(page);
        self.suppressed.push(suppressed);
        if self.suppressed.len() > MAX_SUPPRESSED {
            self.suppressed.remove(0);
        }
    }

    fn expire(&mut self, now: UnixTime) {
        self.extras
            .retain(|extra| extra.misses < FORGOTTEN_MISSES && extra.seen + extra.lifetime() > now);
        self.suppressed
            .retain(|suppressed| suppressed.until + MEMORY_OF_BANS > now);
    }
}

impl Extra {
    /// Returns true if the object is planned at this time, unless it is volatile.
    pub(super) fn is_current(&self, now: UnixTime) -> bool {
        self.misses < MAX_MISSES && self.seen + self.lifetime() > now
    }

    /// Time after the last request for which the object is remembered.
    const fn lifetime(&self) -> Duration {
        if self.absent { DAY } else { MAX_AGE }
    }
}

/// Consecutive visits without the object after which it is no longer planned.
const MAX_MISSES: u8 = 2;
/// Maximum number of requests to absent hosts of one visit.
const MAX_ABSENT: usize = 32;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Consecutive visits without the object after which it is removed.
const FORGOTTEN_MISSES: u8 = 8;
/// Time for which the first useless push excludes a subresource from the plan; each further one doubles it.
const FIRST_BAN: Duration = DAY;
/// Maximum number of doublings: 64 days.
const MAX_STRIKES: u8 = 6;
/// Time after its end during which a suppression counts as a previous one.
const MEMORY_OF_BANS: Duration = Duration::from_secs(30 * 24 * 3600);
/// Size of the largest plan; further objects of a visit are ignored.
const MAX_ASKED: usize = 1000;
