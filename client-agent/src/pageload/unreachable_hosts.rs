//! Hosts that the gateway could not reach during a page load.
//!
//! A browser that resolves names itself ends all requests of a page for a missing host at once. Through the agent, each of
//! them would cross the hop to fail again, only a few at a time, because browsers limit their connections to a host.
use std::time::Duration;

use longhaul_session::FailureReason;
use tokio::time::Instant;

/// Time for which a failure answers further requests: shorter than the time after which users try again.
const LIFETIME: Duration = Duration::from_secs(30);
/// Maximum number of hosts; pages refer to fewer hosts that do not answer.
const MAX_HOSTS: usize = 64;

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
    since: Instant,
}

impl UnreachableHosts {
    /// Records a failed request, if the failure concerns all requests to its host.
    pub(super) fn record(&mut self, origin: &str, reason: FailureReason, detail: &str, now: Instant) {
        if !concerns_host(reason) || self.find(origin, now).is_some() {
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
            since: now,
        });
    }

    /// Removes a host that answers.
    pub(super) fn remove(&mut self, origin: &str) {
        self.failures.retain(|failure| failure.origin != origin);
    }

    /// Returns the failure of a host: the reason and the gateway's description.
    pub(super) fn find(&self, origin: &str, now: Instant) -> Option<(FailureReason, &str)> {
        let failure = self.failures.iter().find(|failure| failure.origin == origin)?;
        (now < failure.since + LIFETIME).then_some((failure.reason, failure.detail.as_str()))
    }
}

/// True if the failure would repeat for each request to the host. Timeouts and interrupted connections may concern one
/// request only.
const fn concerns_host(reason: FailureReason) -> bool {
    match reason {
        FailureReason::DnsNotFound
        | FailureReason::ConnectionRefused
        | FailureReason::TlsExpired
        | FailureReason::TlsUnknownIssuer
        | FailureReason::TlsNameMismatch
        | FailureReason::TlsDeniedKey
        | FailureReason::AddressRefused
        | FailureReason::TargetRefused => true,
        FailureReason::DnsFailed
        | FailureReason::Unreachable
        | FailureReason::ConnectTimeout
        | FailureReason::TlsOther
        | FailureReason::TlsClientCertificate
        | FailureReason::ResponseTimeout
        | FailureReason::ConnectionReset
        | FailureReason::MalformedResponse
        | FailureReason::HeaderTooLarge
        | FailureReason::BadUrl
        | FailureReason::TooEarly
        | FailureReason::UnknownBase
        | FailureReason::Changed
        | FailureReason::Overloaded
        | FailureReason::QuotaReached
        | FailureReason::Malformed
        | FailureReason::Internal => false,
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
