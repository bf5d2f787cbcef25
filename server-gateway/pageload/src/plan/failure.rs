//! Entries without response, and hosts that cannot be reached.
use longhaul_session::{AbsentHost, EntryFailure, EntryId, FailureReason, Withdrawal};
use url::Url;

use super::{Plan, PlanEntry, Stage, manifest_change::ManifestChange};

/// Time in seconds for which the failure of a host answers requests of its page load.
const ABSENCE: u32 = 30;
/// Maximum number of hosts; pages refer to fewer hosts that do not answer.
const MAX_ABSENT: usize = 64;

/// Effect of a failed fetch on the plan's knowledge of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState {
    /// The host may answer other requests, or is known to be absent.
    Unchanged,
    /// The host is announced as absent.
    NewlyAbsent,
}

impl Plan {
    /// Ends an entry whose fetch failed. If the failure concerns all requests to the host, the manifest announces the
    /// host as absent, and its other entries are withdrawn.
    pub(crate) fn fail(&mut self, entry: EntryId, reason: FailureReason, detail: &str) -> HostState {
        let Some(found) = self.get(entry).filter(|found| found.is_open()) else {
            return HostState::Unchanged;
        };
        if reason.concerns_host() {
            let origin = origin_of(&found.reference.url);
            let state = self.announce_absence(origin, reason, detail);
            self.withdraw(entry, Withdrawal::Failed);
            return state;
        }
        if reason.precedes_request() {
            if let Some(found) = self.get_mut(entry) {
                found.stage = Stage::Withdrawn;
            }
            self.changes.push(ManifestChange::Failed(EntryFailure {
                entry,
                reason,
                detail: detail.to_owned(),
            }));
            self.entry_searched(entry);
        } else {
            // The browser's own request may have other fields, and succeed.
            self.withdraw(entry, Withdrawal::Failed);
        }
        HostState::Unchanged
    }

    fn announce_absence(&mut self, origin: String, reason: FailureReason, detail: &str) -> HostState {
        if self.absent.len() >= MAX_ABSENT || !self.absent.insert(origin.clone()) {
            return HostState::Unchanged;
        }
        let is_of_host = |entry: &PlanEntry| {
            matches!(entry.stage, Stage::Announced) && origin_of(&entry.reference.url) == origin
        };
        let entries = self.entries().filter(|(_, entry)| is_of_host(entry));
        let withdrawn: Vec<EntryId> = entries.map(|(number, _)| number).collect();
        self.changes.push(ManifestChange::Absent(AbsentHost {
            origin,
            reason,
            detail: detail.to_owned(),
            seconds: ABSENCE,
        }));
        for entry in withdrawn {
            self.withdraw(entry, Withdrawal::Failed);
        }
        HostState::NewlyAbsent
    }

    /// Returns true if the host of a URL cannot be reached.
    pub(crate) fn is_absent(&self, url: &Url) -> bool {
        !self.absent.is_empty() && self.absent.contains(&origin_of(url))
    }

    /// Records that the host of an entry answers.
    pub(super) fn host_answers(&mut self, entry: EntryId) {
        if self.absent.is_empty() {
            return;
        }
        if let Some(origin) = self.get(entry).map(|found| origin_of(&found.reference.url)) {
            self.absent.remove(&origin);
        }
    }
}

fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use longhaul_page::{Destination, Reference};
    use longhaul_session::Record;

    use super::{
        super::{Answer, PlanLimits},
        *,
    };

    fn plan(urls: &[&str]) -> Plan {
        let page = Url::parse("http://a.test/").unwrap();
        let references = urls
            .iter()
            .map(|url| Reference::new(page.join(url).unwrap(), Destination::Image));
        let mut plan = Plan::new(page.clone(), PlanLimits::default(), BTreeMap::new());
        plan.found(references, None);
        plan
    }

    fn kinds(plan: &mut Plan) -> String {
        let records = plan.take_records().into_iter().map(|record| match record {
            Record::Entry(_) => 'e',
            Record::Head(_) => 'h',
            Record::Withdrawn { .. } => 'w',
            Record::Planned => 'p',
            Record::Failed(_) => 'f',
            Record::Absent(_) => 'a',
        });
        records.collect()
    }

    #[test]
    fn an_absent_host_is_announced_once_before_its_withdrawn_entries() {
        let mut plan = plan(&[
            "http://missing.test/1",
            "http://missing.test/2",
            "/own",
            "http://missing.test:81/",
        ]);
        let first = plan.next_fetch(false).unwrap();
        assert_eq!(kinds(&mut plan), "eeee");
        let state = plan.fail(first, FailureReason::DnsNotFound, "no such name");
        assert_eq!(state, HostState::NewlyAbsent);
        assert_eq!(kinds(&mut plan), "aww");
        assert!(plan.is_absent(&Url::parse("http://missing.test/x?y").unwrap()));
        assert!(!plan.is_absent(&Url::parse("http://missing.test:81/").unwrap()));
        // No further reference to it is planned.
        let more = ["http://missing.test/3", "http://other.test/"];
        let more = more.map(|url| Reference::new(Url::parse(url).unwrap(), Destination::Image));
        plan.found(more, None);
        assert_eq!(kinds(&mut plan), "e");
        assert_eq!(
            plan.fail(first, FailureReason::DnsNotFound, ""),
            HostState::Unchanged
        );
        assert_eq!(kinds(&mut plan), "");
        assert!(plan.has_open());
    }

    #[test]
    fn other_failures_concern_one_entry() {
        let mut plan = plan(&["http://slow.test/1", "http://slow.test/2", "/own"]);
        let all: Vec<EntryId> = EntryId::all().take(3).collect();
        assert_eq!(kinds(&mut plan), "eee");
        let reasons = [FailureReason::ConnectTimeout, FailureReason::ResponseTimeout];
        for (entry, reason) in all.iter().zip(reasons) {
            assert_eq!(plan.fail(*entry, reason, "late"), HostState::Unchanged);
        }
        assert_eq!(kinds(&mut plan), "fw");
        assert!(!plan.is_absent(&Url::parse("http://slow.test/").unwrap()));
    }

    #[test]
    fn a_host_that_answers_is_not_absent() {
        let mut plan = plan(&["http://b.test/1", "http://b.test/2"]);
        let fetched = [plan.next_fetch(false).unwrap(), plan.next_fetch(false).unwrap()];
        plan.fail(fetched[0], FailureReason::ConnectionRefused, "");
        let answer: Answer = super::super::tests::answer(super::super::AnswerBody::None);
        plan.answered(fetched[1], answer, |_| false);
        assert!(!plan.is_absent(&Url::parse("http://b.test/").unwrap()));
    }
}
