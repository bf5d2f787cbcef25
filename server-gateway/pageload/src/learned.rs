//! Learned plans: cache records of earlier visits of a page, around [`longhaul_page::learn`].
//!
//! Each client has records of its own. What other devices may be told ([`SharedLesson`]) is also added to records that
//! all devices use, so that the first visit of a page on a device is planned by what scripts loaded elsewhere, and without
//! what two other devices did not use.
mod visit_result;

use std::collections::{BTreeMap, BTreeSet};

use longhaul_cache::{Cache, Partition};
use longhaul_gateway_core::admin::page_load_refusal::{Refusal, RefusalCounters};
use longhaul_page::{
    CredentialsPermission, Destination, Importance, Inserter, Reference,
    learn::{Learned, LearnedRef, LiteralRequest, RequestForm},
};
use longhaul_types::{ContentHash, UnixTime};
use longhaul_webcache::RequesterIdentity;
use url::Url;

pub(crate) use self::visit_result::{Seen, VisitResult};
use super::{
    learned_records::read,
    publicity::{Disclosure, Publicity},
    shared_lesson::Teacher,
    unplanned_answer::UnplannedAnswer,
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
