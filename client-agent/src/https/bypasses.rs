//! The bypassed hosts: learned from hosts and from the programs of clients.
//!
//! A reason that lies in the host or that the user chose bypasses the host for all programs. A reason that lies
//! in a program, such as a certificate that it does not accept, bypasses the host for that program only. One
//! rejection is weak evidence, because the user may be about to import the authority: the first bypass is short,
//! and repeated ones are longer. A program that rejects a certificate and has accepted none does not have the
//! authority: it is bypassed at all hosts, so that it does not fail once at each of them.
use std::{collections::BTreeMap, time::Duration};

use longhaul_http::acceleration::is_listed;
use longhaul_types::UnixTime;

use super::{
    bypass_reason::{BypassReason, DAY, HOUR, MINUTE},
    program::ProgramId,
};

/// Bypass time for a program of which another instance has accepted the host's certificate recently, such as
/// another profile of the same browser.
const CONTRADICTED: Duration = Duration::from_secs(MINUTE);
/// Time for which an acceptance counts as recent.
const RECENT: Duration = Duration::from_secs(HOUR);
/// Time for which the number of rejections is remembered after the end of a bypass.
const MEMORY: Duration = Duration::from_secs(7 * DAY);
/// Maximum number of bypasses; the one that ends first is removed.
pub(super) const MAX_BYPASSES: usize = 512;
/// Maximum number of programs and hosts whose acceptance is remembered; the oldest is removed.
const MAX_ACCEPTED: usize = 1024;

/// A bypassed host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassedHost {
    /// Host name.
    pub host: String,
    /// Reason of the bypass.
    pub why: BypassReason,
    /// End of the bypass.
    pub until: UnixTime,
    /// The program to which the bypass applies; `None`: all programs.
    pub program: Option<ProgramId>,
    /// Name of the program, if it says one.
    pub program_name: Option<String>,
    /// Number of events that led to the bypass.
    pub count: u32,
    /// True if the program is bypassed at all hosts.
    pub everywhere: bool,
}

/// A program and a host.
pub(super) type ProgramAtHost = (String, ProgramId);

/// All bypasses, and the acceptances that contradict them.
#[derive(Debug, Default)]
pub(super) struct Bypasses {
    entries: BTreeMap<(String, Option<ProgramId>), Bypass>,
    accepted: BTreeMap<ProgramAtHost, UnixTime>,
}

#[derive(Clone, Debug)]
struct Bypass {
    why: BypassReason,
    until: UnixTime,
    name: Option<String>,
    count: u32,
    everywhere: bool,
}

impl Bypass {
    /// A bypass from `now`, after so many events.
    fn new(why: BypassReason, name: Option<String>, (count, everywhere): (u32, bool), now: UnixTime) -> Self {
        let time = if everywhere {
            why.time_everywhere(count, name.as_deref())
        } else {
            why.time(count)
        };
        Self {
            why,
            until: now + time,
            name,
            count,
            everywhere,
        }
    }

    /// End of the time for which the entry is kept.
    fn kept_until(&self) -> UnixTime {
        if self.why.is_counted() {
            self.until + MEMORY
        } else {
            self.until
        }
    }
}

impl Bypasses {
    /// Bypasses a host for all programs.
    pub(super) fn add_for_all(&mut self, host: &str, why: BypassReason, now: UnixTime) {
        let key = (host.to_owned(), None);
        let earlier = self.entries.get(&key).filter(|entry| entry.kept_until() > now);
        let counted = earlier.filter(|_| why.is_counted());
        // Several requests that fail together are one event, and learned reasons do not replace each other.
        if counted.is_some_and(|entry| entry.until > now) {
            return;
        }
        let count = counted.map_or(0, |entry| entry.count).saturating_add(1);
        self.insert(key, Bypass::new(why, None, (count, false), now), now);
    }

    /// Bypasses a host for a program, or all hosts if the program rejects a certificate and has accepted none.
    /// Returns false if the host was bypassed for the same reason already.
    pub(super) fn add(
        &mut self,
        (host, program): (&str, ProgramId),
        name: Option<String>,
        why: BypassReason,
        now: UnixTime,
    ) -> bool {
        let key = (host.to_owned(), Some(program));
        let earlier = self.entries.get(&key).filter(|entry| entry.kept_until() > now);
        let count = earlier.map_or(0, |entry| entry.count);
        // Several connections that a program opens together are one event.
        let is_same = earlier.is_some_and(|entry| {
            let both_reject = entry.why.is_rejection() && why.is_rejection();
            entry.until > now && (entry.why == why || both_reject)
        });
        let bypass = if why.is_rejection() && self.has_accepted(host, program, now) {
            Bypass {
                until: now + CONTRADICTED,
                ..Bypass::new(why, name, (count.max(1), false), now)
            }
        } else if is_same {
            return false;
        } else {
            let everywhere = why.is_rejection() && !self.has_accepted_any(program, now);
            let events = self.events_everywhere(program, now).filter(|_| everywhere);
            let count = events.unwrap_or_default().max(count).saturating_add(1);
            Bypass::new(why, name, (count, everywhere), now)
        };
        self.insert(key, bypass, now);
        true
    }

    /// Number of events that led to bypasses of a program at all hosts. Connections to several hosts that the program
    /// opened together are one event.
    fn events_everywhere(&self, program: ProgramId, now: UnixTime) -> Option<u32> {
        let of_program = self.of(program).filter(|entry| entry.everywhere);
        let ended = of_program.filter(|entry| entry.until <= now && entry.kept_until() > now);
        ended.map(|entry| entry.count).max()
    }

    fn of(&self, program: ProgramId) -> impl Iterator<Item = &Bypass> {
        let entries = self.entries.iter();
        let of_program = entries.filter(move |((_, of), _)| *of == Some(program));
        of_program.map(|(_, entry)| entry)
    }

    /// True if the program trusts the authority: it has accepted a certificate in the last day.
    fn has_accepted_any(&self, program: ProgramId, now: UnixTime) -> bool {
        let mut accepted = self.accepted.iter();
        accepted.any(|((_, of), at)| *of == program && now < *at + Duration::from_secs(DAY))
    }

    fn has_accepted(&self, host: &str, program: ProgramId, now: UnixTime) -> bool {
        let accepted = self.accepted.get(&(host.to_owned(), program));
        accepted.is_some_and(|at| now < *at + RECENT)
    }

    /// Records that a program has accepted the certificate of a host: it trusts the authority. Bypasses after a
    /// single rejection by it at other hosts end; it may have rejected the certificate before the authority was
    /// imported. Returns true if a bypass changed.
    pub(super) fn accept(&mut self, host: &str, program: ProgramId, now: UnixTime) -> bool {
        if self.accepted.len() >= MAX_ACCEPTED {
            let oldest = self.accepted.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.accepted.remove(&oldest);
            }
        }
        self.accepted.insert((host.to_owned(), program), now);
        let mut has_changed = false;
        self.entries.retain(|(at, of), entry| {
            let is_rejection = *of == Some(program) && entry.why.is_rejection();
            if is_rejection && at != host && entry.until > now && (entry.count == 1 || entry.everywhere) {
                // The count stays: a program that rejects only this host's certificate is bypassed from its
                // second rejection on.
                entry.until = now;
                has_changed = true;
            }
            if is_rejection {
                entry.everywhere = false;
            }
            let is_disproved = is_rejection && at == host;
            has_changed |= is_disproved;
            !is_disproved
        });
        has_changed
    }

    /// Restores a bypass of an earlier run.
    pub(super) fn restore(&mut self, bypassed: &BypassedHost, now: UnixTime) {
        // Versions that bypassed hosts for all programs stored rejections without a program.
        if bypassed.why.is_of_program() != bypassed.program.is_some() {
            return;
        }
        let events = (bypassed.count, bypassed.everywhere);
        let longest = Bypass::new(bypassed.why, bypassed.program_name.clone(), events, now);
        // An entry written with a wrong clock must not bypass a host for years.
        let bypass = Bypass {
            until: bypassed.until.min(longest.until),
            ..longest
        };
        if bypass.kept_until() > now {
            self.insert((bypassed.host.clone(), bypassed.program), bypass, now);
        }
    }

    fn insert(&mut self, key: (String, Option<ProgramId>), bypass: Bypass, now: UnixTime) {
        if self.entries.len() >= MAX_BYPASSES && !self.entries.contains_key(&key) {
            self.entries.retain(|_, entry| entry.kept_until() > now);
            let first = self.entries.iter().min_by_key(|(_, entry)| entry.until);
            let first = first.map(|(key, _)| key.clone());
            if let (Some(first), true) = (first, self.entries.len() >= MAX_BYPASSES) {
                self.entries.remove(&first);
            }
        }
        self.entries.insert(key, bypass);
    }

    /// True if a host is bypassed for all programs.
    pub(super) fn contains_for_all(&self, host: &str, now: UnixTime) -> bool {
        self.reason_for_all(host, now).is_some()
    }

    /// The reason why a host is bypassed for all programs.
    pub(super) fn reason_for_all(&self, host: &str, now: UnixTime) -> Option<BypassReason> {
        let bypass = self.entries.get(&(host.to_owned(), None))?;
        (bypass.until > now).then_some(bypass.why)
    }

    /// True if a host is bypassed for a program.
    pub(super) fn contains(&self, host: &str, program: ProgramId, now: UnixTime) -> bool {
        let here = self.entries.get(&(host.to_owned(), Some(program)));
        here.is_some_and(|entry| entry.until > now)
            || self
                .of(program)
                .any(|entry| entry.everywhere && entry.until > now)
    }

    /// True if it is unlikely that a browser's requests to the host reach the agent: the host is bypassed for all
    /// programs, or programs reject its certificate and none has accepted it.
    pub(super) fn is_unseen(&self, host: &str, now: UnixTime) -> bool {
        if self.contains_for_all(host, now) {
            return true;
        }
        let of_host = self.entries.range((host.to_owned(), None)..);
        let mut of_host = of_host.take_while(|((of, _), _)| of == host);
        let is_rejected = of_host.any(|(_, entry)| entry.until > now && entry.why.is_rejection());
        let accepted = self.accepted.range((host.to_owned(), ProgramId::FIRST)..);
        let mut accepted = accepted.take_while(|((of, _), _)| of == host);
        is_rejected && !accepted.any(|(_, at)| now < *at + Duration::from_secs(DAY))
    }

    /// True if it is unlikely that a browser's requests to any host reach the agent: a program does not have the
    /// authority, and no program has accepted a certificate.
    pub(super) fn are_all_unseen(&self, now: UnixTime) -> bool {
        let mut entries = self.entries.values();
        let mut accepted = self.accepted.values();
        entries.any(|entry| entry.everywhere && entry.until > now)
            && !accepted.any(|at| now < *at + Duration::from_secs(DAY))
    }

    /// The hosts for which [`Self::is_unseen`] holds.
    pub(super) fn unseen(&self, now: UnixTime) -> Vec<String> {
        let mut hosts: Vec<String> = self.entries.keys().map(|(host, _)| host.clone()).collect();
        hosts.dedup();
        hosts.retain(|host| self.is_unseen(host, now));
        hosts
    }

    /// The bypasses in effect.
    pub(super) fn active(&self, now: UnixTime) -> Vec<BypassedHost> {
        self.list(|entry| entry.until > now)
    }

    /// All bypasses to store: those in effect, and those whose number of events is remembered.
    pub(super) fn kept(&self, now: UnixTime) -> Vec<BypassedHost> {
        self.list(|entry| entry.kept_until() > now)
    }

    fn list(&self, is_listed: impl Fn(&Bypass) -> bool) -> Vec<BypassedHost> {
        let listed = self.entries.iter().filter(|(_, entry)| is_listed(entry));
        listed
            .map(|((host, program), entry)| BypassedHost {
                host: host.clone(),
                why: entry.why,
                until: entry.until,
                program: *program,
                program_name: entry.name.clone(),
                count: entry.count,
                everywhere: entry.everywhere,
            })
            .collect()
    }

    /// Forgets the bypasses of a host and its subdomains, or all; returns the number of those in effect.
    pub(super) fn forget(&mut self, host: Option<&str>, now: UnixTime) -> usize {
        let mut forgotten = 0;
        let names = host.map(|host| vec![host.to_owned()]);
        self.entries.retain(|(of, _), entry| {
            let is_meant = names.as_ref().is_none_or(|names| is_listed(of, names));
            forgotten += usize::from(is_meant && entry.until > now);
            !is_meant
        });
        forgotten
    }
}

#[cfg(test)]
mod tests;
