//! The rules, and which of them applies to a host. Pure: the time is an argument.
use std::{collections::BTreeMap, time::Duration};

use longhaul_http::site::names_above;
use longhaul_session::ImageLevel;
use longhaul_types::UnixTime;

use crate::host_name::HostName;

/// Maximum number of names with rules.
pub(super) const MAX_NAMES: usize = 256;
/// Duration of a pause.
const PAUSE: Duration = Duration::from_secs(60 * 60);
/// Time for which a site's pages get original images once: enough for one page on the slowest links.
const ORIGINALS: Duration = Duration::from_secs(10 * 60);

/// Whether the https of a site is accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpsRule {
    /// The gateway reads and accelerates it.
    Accelerate,
    /// It passes through a tunnel, unread.
    Tunnel,
}

impl HttpsRule {
    /// Name of the rule in commands, forms and the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accelerate => "accelerate",
            Self::Tunnel => "tunnel",
        }
    }

    /// Returns the rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Accelerate, Self::Tunnel]
            .into_iter()
            .find(|rule| rule.name() == name)
    }
}

/// The rules for one name: a host with its subdomains, so that a registrable domain stands for its site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Whether its https is accelerated; `None`: the settings decide.
    pub https: Option<HttpsRule>,
    /// Image level of its pages; `None`: the agent's level.
    pub images: Option<ImageLevel>,
    /// End of the time for which its pages get original images, whatever `images` says.
    pub originals_until: Option<UnixTime>,
    /// End of the pause.
    pub paused_until: Option<UnixTime>,
}

/// A pause in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause<'a> {
    /// Name of the rule; `None`: everything is paused.
    pub name: Option<&'a HostName>,
    /// End of the pause.
    pub until: UnixTime,
}

/// A change of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleChange {
    /// Sets or removes the rule about https.
    Https(HostName, Option<HttpsRule>),
    /// Sets or removes the image level.
    Images(HostName, Option<ImageLevel>),
    /// Gives the pages of a name original images for ten minutes.
    Originals(HostName),
    /// Pauses a name, or everything, for an hour.
    Pause(Option<HostName>),
    /// Ends the pause of a name, or that of everything.
    Resume(Option<HostName>),
    /// Removes the rules of a name.
    Remove(HostName),
    /// Removes all rules and pauses.
    RemoveAll,
}

/// Error: there are as many rules as the agent keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are rules for {MAX_NAMES} names already, which is the limit: remove one that is no longer needed"
)]
pub struct TooManyRules;

/// All rules of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub(super) rules: BTreeMap<HostName, Rule>,
    /// End of the pause of everything.
    pub(super) paused_until: Option<UnixTime>,
}

impl RuleSet {
    /// The rules by name.
    pub fn iter(&self) -> impl Iterator<Item = (&HostName, &Rule)> {
        self.rules.iter()
    }

    /// Number of names with rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there are neither rules nor pauses.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.paused_until.is_none()
    }

    /// The rules of exactly this name.
    pub fn of(&self, name: &HostName) -> Rule {
        self.rules.get(name).copied().unwrap_or_default()
    }

    /// End of the pause of everything, if it is in effect.
    pub fn paused_until(&self, now: UnixTime) -> Option<UnixTime> {
        self.paused_until.filter(|until| now < *until)
    }

    /// Returns the rule about https of the longest name that contains `host`, which is in lower case.
    pub fn https(&self, host: &str) -> Option<(&HostName, HttpsRule)> {
        self.nearest(host, |rule| rule.https)
    }

    /// Returns the image level of pages of `host`; `None`: the agent's level.
    pub fn images(&self, host: &str, now: UnixTime) -> Option<ImageLevel> {
        let is_running = |rule: &Rule| rule.originals_until.filter(|until| now < *until);
        if self.nearest(host, is_running).is_some() {
            return Some(ImageLevel::Original);
        }
        self.nearest(host, |rule| rule.images).map(|(_, level)| level)
    }

    /// Returns the pause of `host` that ends last, if there is one.
    pub fn pause(&self, host: &str, now: UnixTime) -> Option<Pause<'_>> {
        let everything = self.paused_until(now).map(|until| Pause { name: None, until });
        let named = self.above(host).filter_map(|(name, rule)| {
            let until = rule.paused_until.filter(|until| now < *until)?;
            let name = Some(name);
            Some(Pause { name, until })
        });
        everything
            .into_iter()
            .chain(named)
            .max_by_key(|pause| pause.until)
    }

    /// Image levels by name for a peer that knows no times, at most one a name; the longest name applies.
    pub fn image_levels(&self, now: UnixTime) -> Vec<(String, ImageLevel)> {
        let levels = self.rules.iter().filter_map(|(name, rule)| {
            let is_own = rule.images.is_some() || rule.originals_until.is_some_and(|until| now < until);
            let level = self.images(name.as_str(), now).filter(|_| is_own)?;
            Some((name.to_string(), level))
        });
        levels.collect()
    }

    /// Names whose https passes through tunnels: those of rules and of pauses.
    pub(crate) fn tunnelled(&self, now: UnixTime) -> impl Iterator<Item = &HostName> {
        self.rules.iter().filter_map(move |(name, rule)| {
            let is_paused = rule.paused_until.is_some_and(|until| now < until);
            (is_paused || rule.https == Some(HttpsRule::Tunnel)).then_some(name)
        })
    }

    /// Names whose https is accelerated by a rule.
    pub(crate) fn accelerated(&self) -> impl Iterator<Item = &HostName> {
        let rules = self.rules.iter();
        rules.filter_map(|(name, rule)| (rule.https == Some(HttpsRule::Accelerate)).then_some(name))
    }

    fn nearest<T>(&self, host: &str, of: impl Fn(&Rule) -> Option<T>) -> Option<(&HostName, T)> {
        self.above(host).find_map(|(name, rule)| Some((name, of(rule)?)))
    }

    /// The rules whose name is `host` or above it, the longest name first.
    fn above<'rules, 'host>(
        &'rules self,
        host: &'host str,
    ) -> impl Iterator<Item = (&'rules HostName, &'rules Rule)> + use<'rules, 'host> {
        let host = host.strip_suffix('.').unwrap_or(host);
        let names = names_above(host).filter(|_| !self.rules.is_empty());
        names.filter_map(|name| self.rules.get_key_value(name))
    }

    /// Applies a change.
    ///
    /// # Errors
    /// There are too many rules; then nothing changes.
    pub fn apply(&mut self, change: &RuleChange, now: UnixTime) -> Result<(), TooManyRules> {
        // Whole seconds, as in the file.
        let now = UnixTime::new(Duration::from_secs(now.since_epoch().as_secs()));
        match change {
            RuleChange::Https(name, https) => self.edit(name, |rule| rule.https = *https)?,
            RuleChange::Images(name, images) => self.edit(name, |rule| {
                rule.images = *images;
                rule.originals_until = None;
            })?,
            RuleChange::Originals(name) => {
                self.edit(name, |rule| rule.originals_until = Some(now + ORIGINALS))?;
            }
            RuleChange::Pause(Some(name)) => {
                self.edit(name, |rule| rule.paused_until = Some(now + PAUSE))?;
            }
            RuleChange::Pause(None) => self.paused_until = Some(now + PAUSE),
            RuleChange::Resume(Some(name)) => self.edit(name, |rule| rule.paused_until = None)?,
            RuleChange::Resume(None) => self.paused_until = None,
            RuleChange::Remove(name) => drop(self.rules.remove(name)),
            RuleChange::RemoveAll => *self = Self::default(),
        }
        Ok(())
    }

    fn edit(&mut self, name: &HostName, edit: impl FnOnce(&mut Rule)) -> Result<(), TooManyRules> {
        let mut rule = self.of(name);
        edit(&mut rule);
        if rule == Rule::default() {
            self.rules.remove(name);
        } else if self.rules.len() < MAX_NAMES || self.rules.contains_key(name) {
            self.rules.insert(name.clone(), rule);
        } else {
            return Err(TooManyRules);
        }
        Ok(())
    }

    /// Removes what has ended, and shortens what a wrong clock made longer than it may last. Returns true if anything
    /// changed.
    pub fn expire(&mut self, now: UnixTime) -> bool {
        let before = self.clone();
        for rule in self.rules.values_mut() {
            rule.originals_until = within(rule.originals_until, now, ORIGINALS);
            rule.paused_until = within(rule.paused_until, now, PAUSE);
        }
        self.paused_until = within(self.paused_until, now, PAUSE);
        self.rules.retain(|_, rule| *rule != Rule::default());
        *self != before
    }

    /// The next time at which something ends.
    pub fn next_end(&self) -> Option<UnixTime> {
        let ends = self
            .rules
            .values()
            .flat_map(|rule| [rule.originals_until, rule.paused_until]);
        ends.chain([self.paused_until]).flatten().min()
    }
}

/// The end, if it is still to come, at most `longest` from now.
fn within(until: Option<UnixTime>, now: UnixTime, longest: Duration) -> Option<UnixTime> {
    let whole = Duration::from_secs(now.since_epoch().as_secs());
    let until = until.filter(|until| now < *until)?;
    Some(until.min(UnixTime::new(whole) + longest))
}

#[cfg(test)]
mod tests;
