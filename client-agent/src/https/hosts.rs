//! The hosts that are accelerated: the user's settings and rules, the built-in exclusions, and the bypassed hosts.
//! [`Hosts::decide`] is the only place that decides.
use std::{fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use arc_swap::ArcSwap;
use longhaul_http::acceleration::{Accelerated, is_excluded, is_listed};
use longhaul_types::UnixTime;
use tokio::sync::watch;

use super::{
    bypass_reason::BypassReason,
    bypasses::{BypassedHost, Bypasses},
    decision::HttpsDecision,
    program::ProgramId,
};
use crate::{
    host_name::HostName,
    rules::{HttpsRule, SiteRules},
};

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

/// Decision for each host.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The settings may change while the agent runs.
    settings: ArcSwap<HttpsSettings>,
    /// The user's rules for sites, which may change, too.
    rules: SiteRules,
    bypasses: Mutex<Bypasses>,
    changes: watch::Sender<()>,
}

/// Maximum number of names sent to the gateway: usually a few hundred bytes, at most 64 KiB.
const MAX_NAMES: usize = 256;

impl Hosts {
    pub(super) fn new(settings: HttpsSettings, rules: SiteRules) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            rules,
            bypasses: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    pub(super) fn settings(&self) -> Arc<HttpsSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings.
    pub(super) fn set(&self, settings: HttpsSettings) {
        self.settings.store(Arc::new(settings));
        self.changes.send_replace(());
    }

    pub(super) fn is_off(&self) -> bool {
        self.settings.load().accelerate == Accelerate::Off
    }

    /// True if a host is to be accelerated for programs for which it is not bypassed.
    pub(super) fn accelerates(&self, host: &str, now: UnixTime) -> bool {
        self.decide(host, now).accelerates()
    }

    /// Decides whether a host is accelerated for programs for which it is not bypassed, and by what. What the user
    /// said in the settings about hosts that are never accelerated comes first; then the user's newer words.
    pub(super) fn decide(&self, host: &str, now: UnixTime) -> HttpsDecision {
        let settings = self.settings.load();
        if settings.accelerate == Accelerate::Off {
            return HttpsDecision::Off;
        }
        if is_listed(host, &settings.except) {
            return HttpsDecision::Excepted;
        }
        let rules = self.rules.current();
        if let Some(pause) = rules.pause(host, now) {
            return HttpsDecision::Paused(pause.name.map(ToString::to_string));
        }
        let rule = rules.https(host);
        if let Some((name, HttpsRule::Tunnel)) = rule {
            return HttpsDecision::Rule(name.to_string(), HttpsRule::Tunnel);
        }
        if let Some(why) = self.lock().reason_for_all(host, now) {
            return HttpsDecision::Bypassed(why);
        }
        match (rule, &settings.accelerate) {
            (Some((name, rule)), _) => HttpsDecision::Rule(name.to_string(), rule),
            (None, Accelerate::Only(names)) if is_listed(host, names) => HttpsDecision::Listed,
            (None, Accelerate::All) if !is_excluded(host) => HttpsDecision::All,
            (None, Accelerate::All) => HttpsDecision::Excluded,
            (None, Accelerate::Only(_) | Accelerate::Off) => HttpsDecision::NotListed,
        }
    }

    /// Returns the value for the gateway, which need not push objects that browsers fetch through tunnels.
    /// For listed hosts the value may be inexact, which costs an unused push.
    pub(super) fn accelerated_hosts(&self, now: UnixTime) -> Accelerated {
        let settings = self.settings.load();
        let rules = self.rules.current();
        if rules.paused_until(now).is_some() || self.lock().are_all_unseen(now) {
            return Accelerated::Nothing;
        }
        match &settings.accelerate {
            Accelerate::Off => Accelerated::Nothing,
            Accelerate::All => {
                let tunnelled = rules.tunnelled(now).map(ToString::to_string);
                let except = settings.except.iter().cloned().chain(tunnelled);
                let except = except.chain(self.lock().unseen(now));
                Accelerated::AllBut(except.take(MAX_NAMES).collect())
            }
            Accelerate::Only(names) => {
                let by_rule = rules.accelerated().map(ToString::to_string);
                let kept = names
                    .iter()
                    .cloned()
                    .chain(by_rule)
                    .filter(|name| self.is_seen(name, now));
                Accelerated::Only(kept.take(MAX_NAMES).collect())
            }
        }
    }

    /// True if it is likely that a browser's requests to a host reach the agent.
    fn is_seen(&self, host: &str, now: UnixTime) -> bool {
        self.accelerates(host, now) && !self.lock().is_unseen(host, now)
    }

    /// Returns a receiver for changes of [`Self::accelerated_hosts`].
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Informs the receivers of [`Self::changes`].
    pub(super) fn announce(&self) {
        self.changes.send_replace(());
    }

    /// Bypasses a host for all programs for some time.
    pub(super) fn bypass(&self, host: &str, why: BypassReason, now: UnixTime) {
        self.lock().add_for_all(host, why, now);
        self.announce();
    }

    /// Bypasses a host for a program for some time; returns true if that is a change.
    pub(super) fn bypass_for(
        &self,
        at: (&str, ProgramId),
        name: Option<String>,
        why: BypassReason,
        now: UnixTime,
    ) -> bool {
        let is_new = self.lock().add(at, name, why, now);
        if is_new {
            self.announce();
        }
        is_new
    }

    /// Records that a program accepts the certificate of a host; returns true if bypasses changed.
    pub(super) fn accept(&self, host: &str, program: ProgramId, now: UnixTime) -> bool {
        let (before, has_changed, after) = {
            let mut bypasses = self.lock();
            let unseen = |of: &Bypasses| of.is_unseen(host, now) || of.are_all_unseen(now);
            let before = unseen(&bypasses);
            let has_changed = bypasses.accept(host, program, now);
            (before, has_changed, unseen(&bypasses))
        };
        if has_changed || before != after {
            self.announce();
        }
        has_changed
    }

    /// Restores a bypass of an earlier run.
    pub(super) fn restore_bypass(&self, bypassed: &BypassedHost, now: UnixTime) {
        self.lock().restore(bypassed, now);
    }

    /// True if a host is bypassed for a program.
    pub(super) fn is_bypassed_for(&self, host: &str, program: ProgramId, now: UnixTime) -> bool {
        self.lock().contains(host, program, now)
    }

    /// Waits until a host is no longer accelerated: it becomes bypassed for all programs, the settings change, or
    /// `is_over` at a change.
    pub(super) async fn until_bypassed(
        &self,
        host: &str,
        now: impl Fn() -> UnixTime,
        is_over: impl Fn() -> bool,
    ) {
        let mut changes = self.changes.subscribe();
        // The sender is part of this value.
        while !is_over() && self.accelerates(host, now()) && changes.changed().await.is_ok() {}
    }

    /// Returns the hosts that are bypassed at present.
    pub(super) fn all_bypassed(&self, now: UnixTime) -> Vec<BypassedHost> {
        self.lock().active(now)
    }

    /// Returns the bypasses to store.
    pub(super) fn kept_bypasses(&self, now: UnixTime) -> Vec<BypassedHost> {
        self.lock().kept(now)
    }

    /// Forgets the bypasses of a host, or all; returns their number.
    pub(super) fn forget(&self, host: Option<&HostName>, now: UnixTime) -> usize {
        let forgotten = self.lock().forget(host.map(HostName::as_str), now);
        self.announce();
        forgotten
    }

    fn lock(&self) -> MutexGuard<'_, Bypasses> {
        self.bypasses.lock()
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
    use std::time::Duration;

    use longhaul_types::ClientId;

    use super::*;
    use crate::{https::program::Program, rules::RuleChange, state_dir::StateDir, wall_clock::now};

    const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_700_000_000));

    fn hosts(accelerate: Accelerate, except: &[&str]) -> Hosts {
        let settings = HttpsSettings {
            accelerate,
            except: except.iter().map(|name| (*name).to_owned()).collect(),
        };
        Hosts::new(settings, no_rules())
    }

    /// Rules of a directory that does not exist.
    fn no_rules() -> SiteRules {
        SiteRules::open(&StateDir::new("/nonexistent/longhaul".into())).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn excluded_hosts_are_not_accelerated_and_reported_to_the_gateway() {
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
    async fn changed_settings_end_the_acceleration_of_excluded_hosts_only() {
        let all = hosts(Accelerate::All, &[]);
        let mut changes = all.changes();
        let settings = |accelerate, except: &[&str]| HttpsSettings {
            accelerate,
            except: except.iter().map(|name| (*name).to_owned()).collect(),
        };
        let excluded = all.until_bypassed("bank.test", || NOW, || false);
        let mut other = std::pin::pin!(all.until_bypassed("site.test", || NOW, || false));
        all.set(settings(Accelerate::All, &["bank.test"]));
        excluded.await;
        assert!(changes.has_changed().unwrap(), "the gateway is told");
        changes.mark_unchanged();
        let ends = futures_ready(&mut other).await;
        assert!(!ends && all.accelerates("site.test", NOW) && !all.accelerates("bank.test", NOW));
        all.set(settings(Accelerate::Off, &[]));
        other.await;
        assert!(all.is_off() && changes.has_changed().unwrap());
    }

    /// True if the future is ready now.
    async fn futures_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::select! {
            biased;
            () = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_host_that_requests_a_certificate_is_bypassed_for_all_programs() {
        let all = hosts(Accelerate::All, &[]);
        assert!(all.accelerates("asks.test", NOW));
        let bypassed = all.until_bypassed("asks.test", || NOW, || false);
        all.bypass("asks.test", BypassReason::RequestsClientCertificate, NOW);
        bypassed.await;
        assert!(!all.accelerates("asks.test", NOW) && all.accelerates("other.test", NOW));
        let until = NOW + Duration::from_secs(7 * 24 * 3600);
        assert_eq!(all.all_bypassed(NOW)[0].until, until);
        assert!(all.accelerates("asks.test", until) && all.all_bypassed(until).is_empty());
    }

    #[test]
    fn a_rejection_by_a_program_leaves_the_host_accelerated_for_others() {
        let all = hosts(Accelerate::All, &[]);
        let [curl, browser] =
            ["curl", "browser"].map(|name| Program::new(ClientId::OWNER, Some(name)).id(None));
        let mut changes = all.changes();
        all.bypass_for(("a.test", curl), None, BypassReason::RefusedByClient, NOW);
        assert!(all.accelerates("a.test", NOW));
        assert!(all.is_bypassed_for("a.test", curl, NOW) && !all.is_bypassed_for("a.test", browser, NOW));
        assert_eq!(all.accelerated_hosts(NOW), Accelerated::Nothing);
        changes.mark_unchanged();
        assert!(!all.accept("a.test", browser, NOW));
        assert!(
            changes.has_changed().unwrap(),
            "the gateway plans for the host again"
        );
        assert_eq!(all.accelerated_hosts(NOW), Accelerated::AllBut(Vec::new()));
        let host: HostName = "A.test.".parse().unwrap();
        assert_eq!(all.forget(Some(&host), NOW), 1);
        assert!(!all.is_bypassed_for("a.test", curl, NOW));
    }

    #[tokio::test]
    async fn one_decision_names_what_decided() {
        let home = tempfile::tempdir().unwrap();
        let rules = SiteRules::open(&StateDir::new(home.path().to_owned())).unwrap();
        let https = |name: &str, rule| RuleChange::Https(name.parse().unwrap(), Some(rule));
        let wanted = [
            https("a.test", HttpsRule::Tunnel),
            https("www.a.test", HttpsRule::Accelerate),
            https("never.test", HttpsRule::Accelerate),
            https("irs.gov", HttpsRule::Accelerate),
            https("asks.test", HttpsRule::Accelerate),
            RuleChange::Pause(Some("paused.test".parse().unwrap())),
        ];
        rules.change(&wanted).await.unwrap();
        let settings = |accelerate| HttpsSettings {
            accelerate,
            except: names(&["never.test"]),
        };
        let now = now();
        let all = Hosts::new(settings(Accelerate::All), rules.clone());
        all.bypass("asks.test", BypassReason::RequestsClientCertificate, now);
        let rule = |name: &str, rule| HttpsDecision::Rule(name.to_owned(), rule);
        for (host, decision) in [
            ("never.test", HttpsDecision::Excepted),
            ("mail.a.test", rule("a.test", HttpsRule::Tunnel)),
            ("www.a.test", rule("www.a.test", HttpsRule::Accelerate)),
            ("irs.gov", rule("irs.gov", HttpsRule::Accelerate)),
            ("www.paypal.com", HttpsDecision::Excluded),
            (
                "asks.test",
                HttpsDecision::Bypassed(BypassReason::RequestsClientCertificate),
            ),
            (
                "paused.test",
                HttpsDecision::Paused(Some("paused.test".to_owned())),
            ),
            ("b.test", HttpsDecision::All),
        ] {
            assert_eq!(all.decide(host, now), decision, "{host}");
        }
        let except = names(&["never.test", "a.test", "paused.test", "asks.test"]);
        assert_eq!(all.accelerated_hosts(now), Accelerated::AllBut(except));
        let only = Hosts::new(
            settings(Accelerate::Only(names(&["b.test", "a.test"]))),
            rules.clone(),
        );
        assert_eq!(only.decide("b.test", now), HttpsDecision::Listed);
        assert_eq!(only.decide("c.test", now), HttpsDecision::NotListed);
        let listed = names(&["b.test", "asks.test", "irs.gov", "www.a.test"]);
        assert_eq!(only.accelerated_hosts(now), Accelerated::Only(listed));
        let off = Hosts::new(settings(Accelerate::Off), rules.clone());
        assert_eq!(off.decide("www.a.test", now), HttpsDecision::Off);
        rules.change(&[RuleChange::Pause(None)]).await.unwrap();
        assert_eq!(all.decide("b.test", now), HttpsDecision::Paused(None));
        assert_eq!(all.accelerated_hosts(now), Accelerated::Nothing);
    }
}
