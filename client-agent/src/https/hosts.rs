//! The hosts that are accelerated: the user's settings, the built-in exclusions, and the bypassed hosts.
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use longhaul_http::acceleration::{Accelerated, is_listed};
use longhaul_types::UnixTime;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The hosts that the user wants accelerated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Accelerate {
    /// No host.
    #[default]
    Off,
    /// These hosts and their subdomains.
    Only(Vec<String>),
    /// All hosts except the built-in exclusions.
    All,
}

/// The user's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpsSettings {
    /// `https.accelerate`: the hosts whose traffic the gateway may read to accelerate it. Default off: the
    /// user has to decide.
    pub accelerate: Accelerate,
    /// `https.except`: hosts that are never accelerated. Default none.
    pub except: Vec<String>,
}

/// Reason why a host is bypassed although the settings would accelerate it (docs/https.md section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BypassReason {
    /// The host requests a client certificate.
    RequestsClientCertificate,
    /// A client did not accept the agent's certificate.
    RefusedByClient,
    /// A client closed the connection without an alert as soon as it had received the agent's certificate.
    LeftByClient,
    /// The user opened the host unaccelerated after its certificate had failed verification.
    UsersChoice,
    /// The client's bytes were not HTTP over TLS.
    NotHttp,
}

impl BypassReason {
    /// Explanation for users.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RequestsClientCertificate => "it requests a client certificate",
            Self::LeftByClient => {
                "a program closes its connections when it receives this device's certificates"
            }
            Self::RefusedByClient => "a program does not accept this device's certificates",
            Self::UsersChoice => "you chose to open it without acceleration",
            Self::NotHttp => "its protocol is not HTTP",
        }
    }

    /// Duration of the bypass.
    pub(super) const fn time(self) -> Duration {
        const HOUR: u64 = 3600;
        match self {
            // The reason lies in the host's configuration.
            Self::RequestsClientCertificate => Duration::from_secs(7 * 24 * HOUR),
            // Less certain than an alert.
            Self::LeftByClient => Duration::from_secs(HOUR),
            Self::RefusedByClient => Duration::from_secs(24 * HOUR),
            // Until the end of a working day, like certificate exceptions in browsers.
            Self::UsersChoice => Duration::from_secs(8 * HOUR),
            Self::NotHttp => Duration::from_secs(HOUR),
        }
    }
}

/// Decision for each host.
#[derive(Debug)]
pub(super) struct Hosts {
    settings: HttpsSettings,
    bypassed: Mutex<BTreeMap<String, Bypass>>,
    changes: watch::Sender<()>,
}

/// A bypassed host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassedHost {
    /// Host name.
    pub host: String,
    /// Reason of the bypass.
    pub why: BypassReason,
    /// End of the bypass.
    pub until: UnixTime,
}

#[derive(Clone, Copy, Debug)]
struct Bypass {
    why: BypassReason,
    until: UnixTime,
}

/// Maximum number of names sent to the gateway: usually a few hundred bytes, at most 64 KiB.
const MAX_NAMES: usize = 256;
/// Maximum number of bypassed hosts; the host whose bypass ends first is removed.
pub(super) const MAX_BYPASSED: usize = 512;

impl Hosts {
    pub(super) fn new(settings: HttpsSettings) -> Self {
        Self {
            settings,
            bypassed: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    pub(super) const fn settings(&self) -> &HttpsSettings {
        &self.settings
    }

    pub(super) fn is_off(&self) -> bool {
        self.settings.accelerate == Accelerate::Off
    }

    /// True if a host is to be accelerated.
    pub(super) fn accelerates(&self, host: &str, now: UnixTime) -> bool {
        !is_listed(host, &self.settings.except)
            && self.wanted().contains(host)
            && !self.is_bypassed(host, now)
    }

    fn wanted(&self) -> Accelerated {
        match &self.settings.accelerate {
            Accelerate::Off => Accelerated::Nothing,
            Accelerate::Only(names) => Accelerated::Only(names.clone()),
            Accelerate::All => Accelerated::AllBut(Vec::new()),
        }
    }

    /// Returns the value for the gateway, which need not push objects that browsers fetch through tunnels.
    /// For listed hosts the value may be inexact, which costs an unused push.
    pub(super) fn accelerated_hosts(&self, now: UnixTime) -> Accelerated {
        match self.wanted() {
            Accelerated::AllBut(_) => {
                let bypassed = self.all_bypassed(now).into_iter().map(|bypassed| bypassed.host);
                let except = self.settings.except.iter().cloned().chain(bypassed);
                Accelerated::AllBut(except.take(MAX_NAMES).collect())
            }
            Accelerated::Only(names) => {
                let kept = names
                    .into_iter()
                    .filter(|name| !self.is_bypassed(name, now) && !is_listed(name, &self.settings.except));
                Accelerated::Only(kept.take(MAX_NAMES).collect())
            }
            Accelerated::Nothing => Accelerated::Nothing,
        }
    }

    /// Returns a receiver for changes of [`Self::accelerated_hosts`].
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Bypasses a host for some time.
    pub(super) fn bypass(&self, host: &str, why: BypassReason, now: UnixTime) {
        self.bypass_until(host, why, now + why.time(), now);
        self.changes.send_replace(());
    }

    /// Restores a bypass of an earlier run.
    pub(super) fn restore_bypass(&self, bypassed: &BypassedHost, now: UnixTime) {
        // An entry written with a wrong clock must not bypass a host for years.
        let until = bypassed.until.min(now + bypassed.why.time());
        if until > now {
            self.bypass_until(&bypassed.host, bypassed.why, until, now);
        }
    }

    fn bypass_until(&self, host: &str, why: BypassReason, until: UnixTime, now: UnixTime) {
        let mut bypassed = self.lock();
        if bypassed.len() >= MAX_BYPASSED && !bypassed.contains_key(host) {
            bypassed.retain(|_, bypassed| bypassed.until > now);
            let next = bypassed.iter().min_by_key(|(_, bypassed)| bypassed.until);
            let next = next.map(|(host, _)| host.clone());
            if let (Some(next), true) = (next, bypassed.len() >= MAX_BYPASSED) {
                bypassed.remove(&next);
            }
        }
        bypassed.insert(host.to_owned(), Bypass { why, until });
    }

    pub(super) fn is_bypassed(&self, host: &str, now: UnixTime) -> bool {
        self.lock().get(host).is_some_and(|bypassed| bypassed.until > now)
    }

    /// Waits until a host becomes bypassed.
    pub(super) async fn until_bypassed(&self, host: &str, now: impl Fn() -> UnixTime) {
        let mut changes = self.changes.subscribe();
        // The sender is part of this value.
        while !self.is_bypassed(host, now()) && changes.changed().await.is_ok() {}
    }

    /// Returns the hosts that are bypassed at present.
    pub(super) fn all_bypassed(&self, now: UnixTime) -> Vec<BypassedHost> {
        let bypassed = self.lock();
        let now_spared = bypassed.iter().filter(|(_, bypassed)| bypassed.until > now);
        now_spared
            .map(|(host, Bypass { why, until })| BypassedHost {
                host: host.clone(),
                why: *why,
                until: *until,
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bypass>> {
        // The guarded data is consistent after every statement, so a poisoned lock is harmless.
        self.bypassed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for HttpsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.accelerate {
            Accelerate::Off => return f.write_str("not accelerated"),
            Accelerate::Only(names) => write!(f, "accelerated for {}", names.join(", "))?,
            Accelerate::All => f.write_str("accelerated, except the built-in exclusions")?,
        }
        if !self.except.is_empty() {
            write!(f, ", except {}", self.except.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_700_000_000));

    fn hosts(accelerate: Accelerate, except: &[&str]) -> Hosts {
        Hosts::new(HttpsSettings {
            accelerate,
            except: except.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    #[test]
    fn excluded_hosts_are_not_accelerated_and_reported_to_the_gateway() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let only = hosts(Accelerate::Only(names(&["site.test"])), &["mail.site.test"]);
        assert!(only.accelerates("site.test", NOW) && only.accelerates("www.site.test", NOW));
        assert!(!only.accelerates("mail.site.test", NOW) && !only.accelerates("in.mail.site.test", NOW));
        assert_eq!(
            only.accelerated_hosts(NOW),
            Accelerated::Only(names(&["site.test"]))
        );
        let all = hosts(Accelerate::All, &["a.test"]);
        all.bypass("b.test", BypassReason::UsersChoice, NOW);
        assert_eq!(
            all.accelerated_hosts(NOW),
            Accelerated::AllBut(names(&["a.test", "b.test"]))
        );
        assert_eq!(
            hosts(Accelerate::Off, &[]).accelerated_hosts(NOW),
            Accelerated::Nothing
        );
    }

    #[tokio::test]
    async fn a_host_whose_client_rejects_it_is_bypassed_for_a_day() {
        let all = hosts(Accelerate::All, &[]);
        assert!(all.accelerates("pinned.test", NOW));
        let accelerated_hosts = all.until_bypassed("pinned.test", || NOW);
        all.bypass("pinned.test", BypassReason::RefusedByClient, NOW);
        accelerated_hosts.await;
        assert!(!all.accelerates("pinned.test", NOW) && all.accelerates("other.test", NOW));
        let until = NOW + Duration::from_secs(24 * 3600);
        let bypassed = BypassedHost {
            host: "pinned.test".to_owned(),
            why: BypassReason::RefusedByClient,
            until,
        };
        assert_eq!(all.all_bypassed(NOW), [bypassed]);
        assert!(all.accelerates("pinned.test", until) && all.all_bypassed(until).is_empty());
    }

    #[test]
    fn bypassed_hosts_are_bounded_and_those_with_the_longest_time_stay() {
        let all = hosts(Accelerate::All, &[]);
        all.bypass("asks.test", BypassReason::RequestsClientCertificate, NOW);
        for number in 0..2000 {
            all.bypass(&format!("{number}.test"), BypassReason::NotHttp, NOW);
        }
        assert_eq!(all.all_bypassed(NOW).len(), MAX_BYPASSED);
        assert!(all.is_bypassed("asks.test", NOW) && all.is_bypassed("1999.test", NOW));
    }

    #[test]
    fn restored_bypasses_last_at_most_the_maximum_time() {
        let all = hosts(Accelerate::All, &[]);
        let of = |host: &str, until| BypassedHost {
            host: host.to_owned(),
            why: BypassReason::NotHttp,
            until,
        };
        all.restore_bypass(&of("over.test", NOW), NOW);
        all.restore_bypass(&of("soon.test", NOW + Duration::from_secs(9)), NOW);
        all.restore_bypass(&of("years.test", NOW + Duration::from_secs(1 << 40)), NOW);
        let names: Vec<_> = all
            .all_bypassed(NOW)
            .into_iter()
            .map(|bypassed| bypassed.host)
            .collect();
        assert_eq!(names, ["soon.test", "years.test"]);
        assert!(!all.is_bypassed("soon.test", NOW + Duration::from_secs(9)));
        assert!(!all.is_bypassed("years.test", NOW + Duration::from_secs(3600)));
    }
}
