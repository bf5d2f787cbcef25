//! Names, conditions and variants of systems, in the order of tables.
use std::cmp::Ordering;

use crate::{quantity, results::Row};

/// Links in the order of tables, from slow to fast.
const LINKS: &[&str] = &[
    "gprs-3+1",
    "gprs-class6",
    "dialup",
    "cdma-1x",
    "edge",
    "umts-384",
    "umts-dch256",
    "lte",
    "wlan-lossy",
    "geo-sat",
    "leo-sat",
    "lan-fast",
];
/// Cache states in the order of tables, from empty to full.
const STATES: &[&str] = &[
    "first",
    "cold",
    "second-device",
    "third-device",
    "sibling",
    "next-edition",
    "revisit",
    "warm",
];
/// Loaders in the order of tables: the scripted browser, then Chromium.
const LOADERS: &[&str] = &["model", "chromium"];
/// Systems in the order of tables: Longhaul, the alternatives of users, then the others.
const SYSTEMS: &[&str] = &[
    "longhaul",
    "longhaul-nopush",
    "longhaul-https",
    "longhaul-fixed",
    "longhaul-unknown",
    "longhaul-remembered",
    "longhaul-quic",
    "longhaul-tls",
    "clientless",
    "clientless-2",
    "clientless-unknown",
    "clientless-h2",
    "clientless-pac",
    "clientless-h2-pac",
    "clientless-pipelined",
    "clientless-transparent",
    "clientless-dns",
    "direct",
    "direct-6",
    "direct-dns",
    "url-rewriting",
    "direct-pipelined",
    "direct-http10",
    "direct-h2",
    "tcp-proxy",
    "tcp-proxy-pipelined",
    "tcp-wwan",
    "tcp-wwan-pipelined",
    "squid",
    "squid-cache",
    "squid-pipelined",
    "ziproxy",
    "cubic",
    "bbr",
    "quinn",
    "quinn-tuned",
    "quinn-bbr",
];
/// Techniques of Longhaul that can be switched off, in the order of tables.
pub(crate) const TECHNIQUES: &[&str] = &[
    "chk",
    "delta",
    "dictionaries",
    "push",
    "pictures",
    "coding",
    "mixing",
    "early",
    "headers",
    "learned",
    "nack",
    "credit",
];
/// Levels from the best image quality to no images.
const LEVELS: &[&str] = &["original", "high", "medium", "low", "text"];

/// A name with its position in the known order; unknown names follow alphabetically.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    rank: usize,
    pub(crate) text: String,
}

impl Name {
    pub(super) fn new(known: &[&str], text: &str) -> Self {
        let rank = known.iter().position(|name| *name == text).unwrap_or(known.len());
        Self {
            rank,
            text: text.to_owned(),
        }
    }

    /// Returns the name of a link.
    pub(crate) fn link(text: &str) -> Self {
        Self::new(LINKS, text)
    }

    /// Returns the name of a system of the transport or of page loads.
    pub(crate) fn system(text: &str) -> Self {
        Self::new(SYSTEMS, text)
    }

    /// Returns the name of a cache state.
    pub(crate) fn state(text: &str) -> Self {
        Self::new(STATES, text)
    }
}

/// Share of packets that the Internet loses. Invalid values count as zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss(f64);

impl Loss {
    pub(super) fn new(share: f64) -> Self {
        // Adding zero turns minus zero into zero, which total_cmp distinguishes.
        Self(if share.is_finite() {
            share.clamp(0.0, 1.0) + 0.0
        } else {
            0.0
        })
    }

    /// Returns the share, 0 to 1.
    pub(crate) fn share(self) -> f64 {
        self.0
    }
}

impl PartialEq for Loss {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Loss {}

impl PartialOrd for Loss {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Loss {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The properties that must be equal for a comparison of systems.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setting {
    pub(crate) link: Name,
    pub(crate) loader: Name,
    pub(crate) loss: Loss,
    pub(crate) state: Name,
    /// True if recorded pages were replayed over http, whatever their recorded scheme.
    pub(crate) over_http: bool,
    /// Description of other unusual conditions; empty if none.
    pub(crate) unusual: String,
}

impl Setting {
    pub(super) fn of(row: &Row) -> Self {
        Self {
            link: Name::link(&row.link),
            loader: Name::new(LOADERS, &row.loader),
            loss: Loss::new(row.internet_loss),
            state: Name::state(&row.state),
            over_http: row.scheme == "http",
            unusual: row.conditions.clone(),
        }
    }

    /// Returns true for the benchmark's default conditions: no loss behind the gateway, nothing unusual.
    pub(crate) fn is_plain(&self) -> bool {
        self.loss.share() == 0.0 && self.unusual.is_empty()
    }

    /// Returns loader, state and loss, for a heading below the link's.
    pub(crate) fn conditions(&self) -> String {
        let mut text = format!("{}, {}", self.loader.text, self.state.text);
        self.add_rest(&mut text);
        text
    }

    /// Returns everything except the state, for a heading over several states.
    pub(crate) fn apart_from_state(&self) -> String {
        let mut text = format!("{}, {}", self.link.text, self.loader.text);
        self.add_rest(&mut text);
        text
    }

    fn add_rest(&self, text: &mut String) {
        if self.over_http {
            text.push_str(", replayed over http");
        }
        if self.loss.share() > 0.0 {
            text.push_str(&format!(
                ", Internet loss {}",
                quantity::percent(self.loss.share())
            ));
        }
        if !self.unusual.is_empty() {
            text.push_str(", ");
            text.push_str(&self.unusual);
        }
    }

    /// Returns link, loader, state and loss.
    pub(crate) fn label(&self) -> String {
        format!("{}, {}", self.link.text, self.conditions())
    }
}

/// A system with its options: the level of image quality if it transcodes, and the file if files of different
/// commits contain the same condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Variant {
    pub(crate) system: Name,
    pub(super) level: Option<Name>,
    /// Techniques that were switched off.
    pub(super) without: Vec<String>,
    pub(super) source: Option<String>,
}

impl Variant {
    pub(super) fn of(row: &Row, source: Option<String>) -> Self {
        let transcodes = row.system.starts_with("longhaul") || row.system.starts_with("clientless");
        let level = (transcodes && !row.image_level.is_empty()).then(|| Name::new(LEVELS, &row.image_level));
        Self {
            system: Name::system(&row.system),
            level,
            without: row.without.clone(),
            source,
        }
    }

    /// Returns the name in tables and charts.
    pub(crate) fn label(&self) -> String {
        let mut text = self.system.text.clone();
        if let Some(level) = &self.level {
            text.push_str(&format!(" ({})", level.text));
        }
        if !self.without.is_empty() {
            text.push_str(&format!(" {}", switched(&self.without)));
        }
        if let Some(source) = &self.source {
            text.push_str(&format!(" [{source}]"));
        }
        text
    }

    /// Returns true if every technique was in use.
    pub(crate) fn is_complete(&self) -> bool {
        self.without.is_empty()
    }

    /// Returns the level of image quality, if the system transcodes.
    pub(crate) fn level(&self) -> Option<&str> {
        self.level.as_ref().map(|level| level.text.as_str())
    }

    /// Returns the file, if files must not be combined.
    pub(crate) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

/// Describes techniques that were switched off; if most of them were, the others.
fn switched(without: &[String]) -> String {
    let all = TECHNIQUES.len();
    if without.len() * 2 <= all {
        return format!("without {}", without.join(", "));
    }
    let others = TECHNIQUES
        .iter()
        .filter(|name| !without.iter().any(|off| off == *name));
    let others: Vec<&str> = others.copied().collect();
    if others.is_empty() {
        "without every technique".to_owned()
    } else {
        format!("with {} alone", others.join(", "))
    }
}
