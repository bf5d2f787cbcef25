//! Learned plans: cache records of earlier visits of a page, around [`longhaul_page::learn`].
//!
//! Each client has records of its own. What other devices may be told ([`SharedLesson`]) is also added to records that
//! all devices use, so that the first visit of a page on a device is planned by what scripts loaded elsewhere, and without
//! what two other devices did not use.
use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use longhaul_cache::{Cache, Partition, RecordKey};
use longhaul_page::{
    CredentialsPermission, Destination, Importance, Inserter, Reference,
    learn::{HeldFresh, Learned, LearnedRef, LiteralRequest, RequestForm, Teachers, Unused, Visit},
};
use longhaul_session::{EntryId, Used};
use longhaul_types::{ContentHash, Pii, UnixTime};
use longhaul_webcache::{Audience, RequesterIdentity};
use tracing::debug;
use url::Url;

use super::{
    learned_records::{keys, put, read},
    load::UnplannedAnswer,
    plan::{Plan, PlanEntry},
    public_words::BodyAudience,
    publicity::{Disclosure, Publicity},
    shared_lesson::{Candidate, HostNaming, SharedLesson, Teacher},
};
use crate::{
    admin::page_load_refusal::{Refusal, RefusalCounters},
    body_words::BodyWords,
};

/// Maximum number of unplanned requests of a page load that are learned: those of the page's scripts, without
/// the requests that an open page makes all day.
const MAX_UNPLANNED: usize = 512;

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
    teacher: Teacher,
    /// Requests of other devices for URLs that stand in the page's document, by the URLs' keyed hashes.
    known_literals: BTreeMap<u64, LiteralRequest>,
    /// Requests of other devices that got a body, by the body's keyed hash.
    known_behind: BTreeMap<u64, Vec<LearnedRef>>,
    /// Keyed hashes of the URLs that stand in the page's own document, as far as it has arrived.
    literals: BTreeSet<u64>,
    /// URLs planned from the records.
    extras: BTreeSet<Url>,
    unplanned: Vec<Unplanned>,
    /// CHK of the page's own document, once it is complete.
    document: Option<ContentHash>,
    refused: RefusalCounters,
}

/// A browser request that was not planned.
#[derive(Debug)]
struct Unplanned {
    asked: LearnedRef,
    /// By the request's credentials.
    of_request: Disclosure,
    /// Known once the request is answered.
    of_answer: Option<Disclosure>,
    host: HostAnswer,
}

/// Whether the host of a request can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostAnswer {
    /// It answers, or it is unknown whether it does.
    Possible,
    /// The gateway cannot reach it.
    Absent,
}

/// What is known of a page load at its end, beside its plan.
pub(crate) struct Seen<'a> {
    /// The agent's report; `None` if the session ended before.
    pub(crate) used: Option<&'a Used>,
    /// Values of the cookies that responses set.
    pub(crate) cookies: Vec<Vec<u8>>,
    /// Words of documents that no cache stores.
    pub(crate) unstored: BodyWords,
}

/// True if the browser requested an entry.
fn is_asked(used: Option<&Used>, number: EntryId, entry: &PlanEntry) -> bool {
    used.is_some_and(|used| used.is_taken(number)) || entry.requested.is_some()
}

/// The result of a page load, to be stored.
pub(crate) struct VisitResult {
    /// The client's encoded records of the page, with their keys.
    own: Option<[(RecordKey, Vec<u8>); 2]>,
    shared: Option<SharedLesson>,
}

/// Arguments of [`LearnedPlan::load`].
pub(crate) struct LearnedPlanStart<'a> {
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) identity: &'a RequesterIdentity,
    pub(crate) page: &'a Url,
    /// Publicity of this visit: whether it may add to the shared records.
    pub(crate) publicity: Publicity,
    pub(crate) teacher: Teacher,
    /// Counters of what the visit does not teach.
    pub(crate) refused: RefusalCounters,
    /// Time of the visit.
    pub(crate) now: UnixTime,
}

impl LearnedPlan {
    /// Loads the records of a page.
    pub(crate) async fn load(start: LearnedPlanStart<'_>) -> Self {
        let LearnedPlanStart {
            cache,
            identity,
            page,
            publicity,
            teacher,
            refused,
            now,
        } = start;
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
            known_literals: shared.literals(now),
            known_behind: shared.behind(now),
            shared,
            publicity,
            teacher,
            literals: BTreeSet::new(),
            extras: BTreeSet::new(),
            unplanned: Vec::new(),
            document: None,
            refused,
        }
    }

    /// Continues with the plan of the page to which this page redirected. The request for this page decides whether the
    /// visit may teach others.
    pub(crate) fn redirected(&mut self, target: Self) {
        let publicity = self.publicity.and(target.publicity);
        *self = Self { publicity, ..target };
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
            .map(|(extra, credentials)| reference_of(extra, credentials))
            .collect()
    }

    /// Records that these URLs stand in the page's own document. Returns those that scripts loaded on other devices,
    /// whose documents contained them, too: this device learns no URL that it does not have.
    pub(crate) fn literals(&mut self, urls: Vec<Url>, now: UnixTime) -> Vec<Reference> {
        let mut found = Vec::new();
        for url in urls {
            let hash = self.teacher.hash_of(&url);
            self.literals.insert(hash);
            let Some(LiteralRequest { destination, form }) = self.known_literals.get(&hash).copied() else {
                continue;
            };
            if !self.is_suppressed(&url, now) && self.extras.insert(url.clone()) {
                let extra = LearnedRef {
                    url,
                    destination,
                    form,
                };
                found.push(reference_of(extra, CredentialsPermission::Never));
            }
        }
        found
    }

    /// Returns true if the bodies that arrive may lead to further objects.
    pub(crate) fn awaits_bodies(&self) -> bool {
        !self.known_behind.is_empty()
    }

    /// Records that a body of the page is complete. Returns what scripts loaded on other devices that got the same body,
    /// if its words stand in the body.
    pub(crate) fn body_complete(&mut self, hash: &ContentHash, now: UnixTime) -> Vec<Reference> {
        let behind = self.known_behind.remove(&self.teacher.hash_of_body(hash));
        let mut found = behind.unwrap_or_default();
        found.retain(|extra| !self.own.suppressed(&extra.url, now) && self.extras.insert(extra.url.clone()));
        let references = found.into_iter();
        references
            .map(|extra| reference_of(extra, CredentialsPermission::Never))
            .collect()
    }

    /// Returns true if pushes of the URL were unused: on this device, or on two others unless this device has learned that
    /// its browser requests the URL.
    pub(crate) fn is_suppressed(&self, url: &Url, now: UnixTime) -> bool {
        let is_of_others = || self.shared.suppressed(url, now) && !self.extras.contains(url);
        self.own.suppressed(url, now) || is_of_others()
    }

    /// Records a request of the page's own document that was not planned. `disclosure` follows from its credentials.
    pub(crate) fn unplanned(&mut self, asked: LearnedRef, disclosure: Disclosure) {
        if self.unplanned.len() < MAX_UNPLANNED {
            self.unplanned.push(Unplanned {
                asked,
                of_request: disclosure,
                of_answer: None,
                host: HostAnswer::Possible,
            });
        } else {
            self.refused.add(Refusal::TooMany, 1);
        }
    }

    /// Records what the response to an unplanned request permits. Returns the form of the request if the page's own document
    /// made it.
    pub(crate) fn answered(&mut self, answer: &UnplannedAnswer) -> Option<RequestForm> {
        let mut form = None;
        let is_answered = |unplanned: &&mut Unplanned| unplanned.asked.url == answer.url;
        for unplanned in self.unplanned.iter_mut().filter(is_answered) {
            form = Some(unplanned.asked.form);
            // Once personal, always personal.
            let before = unplanned.of_answer.unwrap_or(answer.disclosure);
            unplanned.of_answer = Some(before.and(answer.disclosure));
            let had_cookies = unplanned.of_request == Disclosure::Never(Refusal::Credentials);
            let is_for_all = answer.is_declared_public && answer.disclosure == Disclosure::PublicWords;
            // The request had cookies of earlier visits, on which the response does not depend.
            if had_cookies && is_for_all {
                unplanned.of_request = Disclosure::TwoDevices;
            }
        }
        form
    }

    /// Records that the host of an unplanned request cannot be reached.
    pub(crate) fn failed(&mut self, url: &Url) {
        for unplanned in self
            .unplanned
            .iter_mut()
            .filter(|unplanned| unplanned.asked.url == *url)
        {
            unplanned.host = HostAnswer::Absent;
        }
    }

    /// Records the CHK of the page's own document.
    pub(crate) fn document_complete(&mut self, hash: ContentHash) {
        self.document = Some(hash);
    }

    /// Learns from a finished page load. Without the agent's report, which entries were not used is unknown.
    pub(crate) fn learn(&mut self, plan: &Plan, seen: Seen<'_>, now: UnixTime) -> VisitResult {
        let Seen {
            used,
            cookies,
            unstored,
        } = seen;
        let is_whole = used.is_some() && plan.is_closed() && !plan.has_open() && plan.is_sent();
        let (mut taken, mut unused, mut useless) = (Vec::new(), Vec::new(), Vec::new());
        for (number, entry) in plan.entries() {
            let url = entry.reference.url.clone();
            if is_asked(used, number, entry) {
                if !plan.is_absent(&url) {
                    taken.push(url);
                }
            } else if is_whole && entry.answered().is_some() {
                let held = if entry.pushed == 0 || plan.previous_hash(&url).is_some() {
                    HeldFresh::Possible
                } else {
                    HeldFresh::No
                };
                debug!(url = ?Pii(&url), bytes = entry.pushed, "the browser did not use an entry");
                // What the page waits for is requested, or held in a way that the gateway does not know.
                if held == HeldFresh::No && entry.reference.importance != Importance::Blocking {
                    useless.push(url.clone());
                }
                unused.push(Unused { url, held });
            } else if is_whole && self.extras.contains(&url) {
                // It has no response that could be pushed.
                useless.push(url);
            }
        }
        let asked: Vec<_> = self.asked(HostAnswer::Possible).cloned().collect();
        let absent = self.absent(plan, used);
        let unlearned = self.own.update(&Visit {
            asked_unplanned: &asked,
            asked_behind: &[],
            asked_absent: &absent,
            pushed_used: &taken,
            pushed_unused: &unused,
            teachers: Teachers::OneDevice,
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
        let shared = SharedLesson {
            page: self.page.clone(),
            teacher: self.teacher.clone(),
            candidates: self.candidates(plan, &taken, &absent, now),
            used: self.confirmed(taken, unused, now),
            unused: only_public(useless, now),
            bodies: self.public_bodies(plan),
            cookies,
            unstored,
            refused: self.refused.clone(),
            now,
        };
        VisitResult {
            own,
            shared: Some(shared),
        }
    }

    /// The unplanned requests, by the answers of their hosts.
    fn asked(&self, host: HostAnswer) -> impl Iterator<Item = &LearnedRef> {
        let asked = self
            .unplanned
            .iter()
            .filter(move |unplanned| unplanned.host == host);
        asked.map(|unplanned| &unplanned.asked)
    }

    /// Requests of the browser to hosts that cannot be reached: unplanned ones, and those that were planned because of
    /// an earlier visit.
    fn absent(&self, plan: &Plan, used: Option<&Used>) -> Vec<LearnedRef> {
        let planned = plan.entries().filter(|(number, entry)| {
            let url = &entry.reference.url;
            is_asked(used, *number, entry) && plan.is_absent(url) && self.extras.contains(url)
        });
        let planned = planned.map(|(_, entry)| learned_ref(entry));
        self.asked(HostAnswer::Absent).cloned().chain(planned).collect()
    }

    /// The requests of this visit that other devices may be told; `absent` are those to hosts that cannot be reached.
    fn candidates(&self, plan: &Plan, taken: &[Url], absent: &[LearnedRef], now: UnixTime) -> Vec<Candidate> {
        let documents = plan
            .entries()
            .filter(|(number, _)| !self.is_of_extra(plan, *number))
            .map(|(_, entry)| &entry.reference.url)
            .chain([&self.page]);
        let hosts: BTreeSet<_> = documents.filter_map(Url::host_str).collect();
        let is_answered = |unplanned: &&Unplanned| unplanned.host == HostAnswer::Possible;
        let unplanned = self.unplanned.iter().filter(is_answered).map(|unplanned| {
            let of_answer = unplanned
                .of_answer
                .unwrap_or(Disclosure::Never(Refusal::Unanswered));
            let disclosure = unplanned.of_request.and(of_answer);
            (unplanned.asked.clone(), disclosure, HostAnswer::Possible)
        });
        // The gateway sent nothing to these hosts, and got nothing from them.
        let absent = absent.iter().map(|asked| {
            let disclosure = Disclosure::PublicWords;
            (asked.clone(), disclosure, HostAnswer::Absent)
        });
        // Objects from this device's own records, which may stem from visits with cookies. In this visit they were
        // requested with no other cookies than its own.
        let extras = plan.entries().filter_map(|(_, entry)| {
            let (answered, url) = (entry.answered()?, &entry.reference.url);
            let disclosure = Disclosure::of(&HeaderMap::new(), answered.status, &answered.headers);
            let is_candidate = self.extras.contains(url) && taken.contains(url);
            is_candidate.then(|| (learned_ref(entry), disclosure, HostAnswer::Possible))
        });
        let mut candidates = Vec::new();
        for (asked, disclosure, answer) in unplanned.chain(absent).chain(extras) {
            let disclosure = if Publicity::of_url(&asked.url, now).is_public() {
                disclosure
            } else {
                disclosure.and(Disclosure::Never(Refusal::Url))
            };
            let is_named = asked.url.host_str().is_some_and(|host| hosts.contains(host));
            candidates.push(Candidate {
                is_literal: self.literals.contains(&self.teacher.hash_of(&asked.url)),
                asked,
                disclosure,
                host: if is_named {
                    HostNaming::Named
                } else {
                    HostNaming::Unknown
                },
                is_absent: answer == HostAnswer::Absent,
            });
        }
        candidates
    }

    /// URLs whose presence in the shared records this visit confirms. The repeated use of a URL that is already there
    /// reveals nothing.
    fn confirmed(&self, taken: Vec<Url>, unused: Vec<Unused>, now: UnixTime) -> Vec<Url> {
        let held = unused
            .into_iter()
            // The browser may have used its own fresh copy: no reason to stop planning the object for others.
            .filter(|unused| unused.held == HeldFresh::Possible)
            .map(|unused| unused.url);
        let asked = self.asked(HostAnswer::Possible).map(|asked| asked.url.clone());
        only_public(taken.into_iter().chain(held).chain(asked), now)
    }

    /// Text bodies that any visitor of the page gets: those of its own documents, and of what these refer to. The
    /// page's request had no credentials, so that none of the other requests had credentials of the user.
    fn public_bodies(&self, plan: &Plan) -> Vec<(ContentHash, BodyAudience)> {
        let of_entries = plan.entries().filter_map(|(number, entry)| {
            let answered = entry.answered()?;
            let is_public = is_text(entry.reference.destination) && !self.is_of_extra(plan, number);
            let audience = match answered.audience {
                Audience::Everybody => BodyAudience::Everybody,
                Audience::RequestingDevice | Audience::RequestingUser => BodyAudience::ThisVisit,
            };
            entry.hash.filter(|_| is_public).map(|hash| (hash, audience))
        });
        let document = self.document.map(|hash| (hash, BodyAudience::ThisVisit));
        document.into_iter().chain(of_entries).collect()
    }

    /// True if records, and no document of this visit, led to an entry. The URL of a learned object may contain a name
    /// of the user, which its body repeats.
    fn is_of_extra(&self, plan: &Plan, entry: EntryId) -> bool {
        let mut at = Some(entry);
        // Terminates, because a referrer always precedes its references.
        while let Some(entry) = at.and_then(|number| plan.get(number)) {
            if self.extras.contains(&entry.reference.url) {
                return true;
            }
            at = entry.referrer;
        }
        false
    }
}

/// The URLs without personal parts.
fn only_public(urls: impl IntoIterator<Item = Url>, now: UnixTime) -> Vec<Url> {
    let urls = urls.into_iter();
    urls.filter(|url| Publicity::of_url(url, now).is_public())
        .collect()
}

/// The reference that a script makes.
fn reference_of(extra: LearnedRef, credentials: CredentialsPermission) -> Reference {
    let reference = Reference::new(extra.url, extra.destination);
    Reference {
        // Objects loaded by scripts do not block the parser.
        importance: reference.importance.max(Importance::High),
        inserter: Inserter::Script,
        cross_origin: extra.form.cross_origin,
        referrer_policy: extra.form.referrer_policy,
        credentials,
        ..reference
    }
}

fn learned_ref(entry: &PlanEntry) -> LearnedRef {
    let reference = &entry.reference;
    LearnedRef {
        url: reference.url.clone(),
        destination: reference.destination,
        form: RequestForm {
            cross_origin: reference.cross_origin,
            referrer_policy: reference.referrer_policy,
        },
    }
}

/// True if the body of an object of this destination is text that may contain names.
pub(super) const fn is_text(destination: Destination) -> bool {
    match destination {
        Destination::Document
        | Destination::Frame
        | Destination::Style
        | Destination::InactiveStyle
        | Destination::Script
        | Destination::Other
        | Destination::Manifest => true,
        Destination::Image | Destination::Font | Destination::Icon => false,
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
