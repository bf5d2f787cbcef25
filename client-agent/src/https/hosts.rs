//! Which hosts are accelerated: what the user says, what is never accelerated unasked, and what turned out not to bear it.
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use longhaul_http::acceleration::{Accelerated, is_listed};
use tokio::{sync::watch, time::Instant};

/// What the user wants accelerated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Accelerate {
    /// Nothing.
    #[default]
    Off,
    /// These hosts and those below them.
    Only(Vec<String>),
    /// All hosts, but for the exclusions.
    All,
}

/// The user's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpsSettings {
    /// `https.accelerate`: what the gateway may read to make it faster. Default off: it is the user's to decide.
    pub accelerate: Accelerate,
    /// `https.except`: hosts that are left alone in any case. Default none.
    pub except: Vec<String>,
}

/// Why a host is left alone although the settings would have it accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A client did not accept our certificate.
    RefusedByClient,
    /// The user opened it so after its certificate had been found wrong.
    UsersChoice,
    /// What was spoken was not HTTP over TLS.
    NotHttp,
}

impl Why {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RefusedByClient => "a program does not accept this device's certificates",
            Self::UsersChoice => "you chose so",
            Self::NotHttp => "it speaks something other than HTTP",
        }
    }

    /// How long that is remembered.
    const fn time(self) -> Duration {
        const HOUR: u64 = 3600;
        match self {
            Self::RefusedByClient => Duration::from_secs(24 * HOUR),
            // As browsers do with exceptions: until the end of a day's work.
            Self::UsersChoice => Duration::from_secs(8 * HOUR),
            Self::NotHttp => Duration::from_secs(HOUR),
        }
    }
}

/// The decision for each host.
#[derive(Debug)]
pub(super) struct Hosts {
    settings: HttpsSettings,
    spared: Mutex<BTreeMap<String, Spared>>,
    changes: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug)]
struct Spared {
    why: Why,
    until: Instant,
}

/// Names that the gateway is told: a few hundred bytes as a rule, and 64 KiB at most.
const MAX_TOLD: usize = 256;
/// Hosts that are remembered as left alone: those beyond are asked again.
const MAX_SPARED: usize = 512;

impl Hosts {
    pub(super) fn new(settings: HttpsSettings) -> Self {
        Self {
            settings,
            spared: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    pub(super) const fn settings(&self) -> &HttpsSettings {
        &self.settings
    }

    pub(super) fn is_off(&self) -> bool {
        self.settings.accelerate == Accelerate::Off
    }

    /// Whether a host is to be accelerated.
    pub(super) fn accelerates(&self, host: &str) -> bool {
        !is_listed(host, &self.settings.except) && self.wanted().contains(host) && !self.is_spared(host)
    }

    fn wanted(&self) -> Accelerated {
        match &self.settings.accelerate {
            Accelerate::Off => Accelerated::Nothing,
            Accelerate::Only(names) => Accelerated::Only(names.clone()),
            Accelerate::All => Accelerated::AllBut(Vec::new()),
        }
    }

    /// What the gateway is told: it need not push what browsers will get through tunnels. Among the hosts of a list it
    /// may be wrong about some, which costs a push in vain.
    pub(super) fn told(&self) -> Accelerated {
        match self.wanted() {
            Accelerated::AllBut(_) => {
                let spared = self.all_spared().into_iter().map(|(host, _)| host);
                let except = self.settings.except.iter().cloned().chain(spared);
                Accelerated::AllBut(except.take(MAX_TOLD).collect())
            }
            Accelerated::Only(names) => {
                let kept = names
                    .into_iter()
                    .filter(|name| !self.is_spared(name) && !is_listed(name, &self.settings.except));
                Accelerated::Only(kept.take(MAX_TOLD).collect())
            }
            Accelerated::Nothing => Accelerated::Nothing,
        }
    }

    /// Notes whenever [`Self::told`] changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Leaves a host alone for a while.
    pub(super) fn spare(&self, host: &str, why: Why) {
        let now = Instant::now();
        let mut spared = self.lock();
        if spared.len() >= MAX_SPARED {
            spared.retain(|_, spared| spared.until > now);
        }
        if spared.len() >= MAX_SPARED {
            spared.clear();
        }
        let until = now + why.time();
        spared.insert(host.to_owned(), Spared { why, until });
        drop(spared);
        self.changes.send_replace(());
    }

    pub(super) fn is_spared(&self, host: &str) -> bool {
        self.lock()
            .get(host)
            .is_some_and(|spared| spared.until > Instant::now())
    }

    /// Waits until a host is left alone.
    pub(super) async fn spared(&self, host: &str) {
        let mut changes = self.changes.subscribe();
        // The sender lives in this value.
        while !self.is_spared(host) && changes.changed().await.is_ok() {}
    }

    /// The hosts that are left alone now, and why.
    pub(super) fn all_spared(&self) -> Vec<(String, Why)> {
        let now = Instant::now();
        let spared = self.lock();
        let now_spared = spared.iter().filter(|(_, spared)| spared.until > now);
        now_spared
            .map(|(host, spared)| (host.clone(), spared.why))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Spared>> {
        // What the lock guards is whole between any two statements.
        self.spared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for HttpsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.accelerate {
            Accelerate::Off => return f.write_str("passes as it is"),
            Accelerate::Only(names) => write!(f, "accelerated for {}", names.join(", "))?,
            Accelerate::All => f.write_str("accelerated, but for the built-in exclusions")?,
        }
        if !self.except.is_empty() {
            write!(f, ", not for {}", self.except.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(accelerate: Accelerate, except: &[&str]) -> Hosts {
        Hosts::new(HttpsSettings {
            accelerate,
            except: except.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    #[test]
    fn exceptions_are_excepted_and_the_gateway_is_told() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let only = hosts(Accelerate::Only(names(&["site.test"])), &["mail.site.test"]);
        assert!(only.accelerates("site.test") && only.accelerates("www.site.test"));
        assert!(!only.accelerates("mail.site.test") && !only.accelerates("in.mail.site.test"));
        assert_eq!(only.told(), Accelerated::Only(names(&["site.test"])));
        let all = hosts(Accelerate::All, &["a.test"]);
        all.spare("b.test", Why::UsersChoice);
        assert_eq!(all.told(), Accelerated::AllBut(names(&["a.test", "b.test"])));
        assert_eq!(hosts(Accelerate::Off, &[]).told(), Accelerated::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_bear_it_is_left_alone_for_a_while() {
        let all = hosts(Accelerate::All, &[]);
        assert!(all.accelerates("pinned.test"));
        let told = all.spared("pinned.test");
        all.spare("pinned.test", Why::RefusedByClient);
        told.await;
        assert!(!all.accelerates("pinned.test") && all.accelerates("other.test"));
        assert_eq!(
            all.all_spared(),
            [("pinned.test".to_owned(), Why::RefusedByClient)]
        );
        tokio::time::advance(Duration::from_secs(24 * 3600 + 1)).await;
        assert!(all.accelerates("pinned.test") && all.all_spared().is_empty());
        for number in 0..2000 {
            all.spare(&format!("{number}.test"), Why::NotHttp);
        }
        assert!(all.lock().len() <= MAX_SPARED);
    }
}
