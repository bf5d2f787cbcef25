//! Hosts that the gateway could not reach during a page load.
//!
//! A browser that resolves names itself ends all requests of a page for a missing host at once. Through the agent, each of
//! them would cross the hop to fail again, only a few at a time, because browsers limit their connections to a host.
use std::time::Duration;

use longhaul_session::{AbsentHost, FailureReason};
use tokio::time::Instant;

/// Time for which a failure answers further requests: shorter than the time after which users try again.
pub(super) const LIFETIME: Duration = Duration::from_secs(30);
/// Maximum number of hosts; pages refer to fewer hosts that do not answer.
const MAX_HOSTS: usize = 64;
/// Maximum length of the gateway's description in characters (docs/protocol/session.md section 7.1).
pub(super) const MAX_DETAIL: usize = 500;

/// Failures of a page load, by scheme, host and port.
#[derive(Debug, Default)]
pub(super) struct UnreachableHosts {
    failures: Vec<HostFailure>,
}

/// The failure to reach a host.
#[derive(Clone, Debug)]
struct HostFailure {
    /// Scheme, host and port.
    origin: String,
    reason: FailureReason,
    detail: String,
    until: Instant,
}

impl UnreachableHosts {
    /// Records a failed request, if the failure concerns all requests to its host.
    pub(super) fn record(&mut self, origin: &str, reason: FailureReason, detail: &str, now: Instant) {
        self.record_for(LIFETIME, origin, reason, detail, now);
    }

    /// Records that a manifest announces a host as absent.
    pub(super) fn announce(&mut self, host: &AbsentHost, now: Instant) {
        let time = Duration::from_secs(host.seconds.into()).min(LIFETIME);
        let detail: String = host.detail.chars().take(MAX_DETAIL).collect();
        self.record_for(time, &host.origin, host.reason, &detail, now);
    }

    fn record_for(
        &mut self,
        time: Duration,
        origin: &str,
        reason: FailureReason,
        detail: &str,
        now: Instant,
    ) {
        if !reason.concerns_host() || self.find(origin, now).is_some() {
            return;
        }
        self.remove(origin);
        if self.failures.len() >= MAX_HOSTS {
            self.failures.remove(0);
        }
        self.failures.push(HostFailure {
            origin: origin.to_owned(),
            reason,
            detail: detail.to_owned(),
            until: now + time,
        });
    }

    /// Removes a host that answers.
    pub(super) fn remove(&mut self, origin: &str) {
        self.failures.retain(|failure| failure.origin != origin);
    }

    /// Returns the failure of a host: the reason and the gateway's description.
    pub(super) fn find(&self, origin: &str, now: Instant) -> Option<(FailureReason, &str)> {
        let failure = self.failures.iter().find(|failure| failure.origin == origin)?;
        (now < failure.until).then_some((failure.reason, failure.detail.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "http://missing.test";

    #[test]
    fn a_failure_holds_for_its_origin_and_for_a_limited_time() {
        let (mut hosts, start) = (UnreachableHosts::default(), Instant::now());
        hosts.record(HOST, FailureReason::DnsNotFound, "no such name", start);
        hosts.record(HOST, FailureReason::ConnectionRefused, "later", start);
        let found = hosts.find(HOST, start + LIFETIME - Duration::from_millis(1));
        assert_eq!(found, Some((FailureReason::DnsNotFound, "no such name")));
        for other in [
            "https://missing.test",
            "http://missing.test:81",
            "http://www.missing.test",
        ] {
            assert_eq!(hosts.find(other, start), None, "{other}");
        }
        assert_eq!(hosts.find(HOST, start + LIFETIME), None);
        hosts.record(HOST, FailureReason::ConnectionRefused, "later", start + LIFETIME);
        let found = hosts.find(HOST, start + LIFETIME);
        assert_eq!(found, Some((FailureReason::ConnectionRefused, "later")));
        hosts.remove(HOST);
        assert_eq!(hosts.find(HOST, start + LIFETIME), None);
    }

    #[test]
    fn an_announced_host_is_absent_for_the_announced_time_at_most() {
        let (mut hosts, start) = (UnreachableHosts::default(), Instant::now());
        let announced = |origin: &str, reason, seconds| AbsentHost {
            origin: origin.to_owned(),
            reason,
            detail: "x".repeat(10_000),
            seconds,
        };
        hosts.announce(&announced(HOST, FailureReason::DnsNotFound, 5), start);
        hosts.announce(
            &announced("http://b.test", FailureReason::DnsNotFound, u32::MAX),
            start,
        );
        hosts.announce(&announced("http://c.test", FailureReason::Internal, 5), start);
        let (_, detail) = hosts.find(HOST, start).unwrap();
        assert_eq!(detail.len(), MAX_DETAIL);
        assert_eq!(hosts.find(HOST, start + Duration::from_secs(5)), None);
        assert!(
            hosts
                .find("http://b.test", start + Duration::from_secs(29))
                .is_some()
        );
        assert_eq!(hosts.find("http://b.test", start + LIFETIME), None);
        assert_eq!(hosts.find("http://c.test", start), None);
    }

    #[test]
    fn failures_of_single_requests_are_not_recorded() {
        let (mut hosts, now) = (UnreachableHosts::default(), Instant::now());
        for reason in [
            FailureReason::ResponseTimeout,
            FailureReason::ConnectionReset,
            FailureReason::Overloaded,
            FailureReason::DnsFailed,
        ] {
            hosts.record(HOST, reason, "", now);
        }
        assert_eq!(hosts.find(HOST, now), None);
    }

    #[test]
    fn the_number_of_hosts_is_limited() {
        let (mut hosts, now) = (UnreachableHosts::default(), Instant::now());
        let origin = |number: usize| format!("http://h{number}.test");
        for number in 0..=MAX_HOSTS {
            hosts.record(&origin(number), FailureReason::DnsNotFound, "", now);
        }
        assert_eq!(hosts.failures.len(), MAX_HOSTS);
        assert!(hosts.find(&origin(0), now).is_none() && hosts.find(&origin(MAX_HOSTS), now).is_some());
    }
}
