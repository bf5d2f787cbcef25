//! What a finished page load teaches: this client's records of the page, and what other devices may be told.
use std::collections::BTreeSet;

use http::HeaderMap;
use longhaul_cache::{Cache, RecordKey};
use longhaul_gateway_core::{admin::page_load_refusal::Refusal, body_words::BodyWords};
use longhaul_page::{
    Importance,
    learn::{HeldFresh, LearnedRef, RequestForm, Teachers, Unused, Visit},
};
use longhaul_session::{EntryId, Used};
use longhaul_types::{ContentHash, Pii, UnixTime};
use longhaul_webcache::Audience;
use tracing::debug;
use url::Url;

use super::{
    super::{
        learned_records::{keys, put},
        plan::{Plan, PlanEntry},
        public_words::BodyAudience,
        publicity::{Disclosure, Publicity},
        shared_lesson::{Candidate, HostNaming, SharedLesson},
    },
    HostAnswer, LearnedPlan, Unplanned, is_text,
};

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

impl LearnedPlan {
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
