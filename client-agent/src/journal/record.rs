//! One request of the journal. Pure data, as `/journal.json` and the file contain it.
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::counters::PhaseExit;

/// Maximum length of a kept URL, in characters. Longer ones are data of scripts.
const MAX_URL: usize = 512;
/// Maximum number of kept phases; a request that is repeated often has more.
const MAX_PHASES: usize = 16;

/// A request of a browser and what became of it. Times are in ms since its arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestRecord {
    /// Number of the request in the journal.
    pub number: u64,
    /// Arrival, in ms since 1970.
    pub at_ms: u64,
    /// The method.
    pub method: String,
    /// The URL, at most 512 characters of it.
    pub url: String,
    /// True for the navigation to a page.
    pub is_page: bool,
    /// Number of the page that the request belongs to.
    pub page: Option<u64>,
    /// The phases that the request left, with reason and time.
    pub phases: Vec<(Cow<'static, str>, u64)>,
    /// Source of the response.
    pub source: Source,
    /// Status code of the response.
    pub status: Option<u16>,
    /// Media type of the response.
    pub media: String,
    /// The time of the response's head.
    pub answered_ms: Option<u64>,
    /// The time of the response's end.
    pub ended_ms: Option<u64>,
    /// How the response ended.
    pub end: ResponseEnd,
    /// Bytes of the body that the browser received, decoded.
    pub bytes: u64,
    /// Bytes of the body on the hop, without the overhead of the transport.
    pub hop_bytes: u64,
    /// Coding of the body on the hop: `identity`, `zstd`, `brotli` or `mix`.
    pub coding: Option<Cow<'static, str>>,
    /// What the body was encoded against, if anything: `stored` (a body that the agent holds) or `dictionary`.
    pub base: Option<Cow<'static, str>>,
    /// What was changed, as the response says it: `image=medium`. Everything else is what the origin sent.
    pub changed: Option<String>,
    /// Why there is no response, for people.
    pub failure: Option<RequestFailure>,
    /// For a page: the rate of the link in bit/s when it was asked for, as known then.
    pub rate_bps: Option<u64>,
    /// For a page: the round-trip time in ms when it was asked for, as known then.
    pub rtt_ms: Option<u64>,
}

/// A failure, as the error page says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFailure {
    /// What happened.
    pub title: String,
    /// Whose fault it is.
    pub whose: String,
}

/// Source of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// There is no response yet.
    #[default]
    None,
    /// The agent's cache, without a question to the gateway.
    Cache,
    /// A body that the agent holds and that has not changed.
    Unchanged,
    /// A push.
    Push,
    /// The gateway, when it was asked.
    Gateway,
    /// The origin, without the gateway.
    Direct,
    /// A picture that is not loaded at the level `text`.
    Hidden,
    /// An error page.
    Failed,
}

impl Source {
    /// The source that the last phase of a request shows; `None` if another phase follows.
    pub(super) const fn of(exit: PhaseExit) -> Option<Self> {
        use PhaseExit as Exit;
        Some(match exit {
            Exit::LookupFresh | Exit::LookupNotModified => Self::Cache,
            Exit::LookupImageReplaced => Self::Hidden,
            Exit::PromisedNotModified | Exit::ArrivingHeld | Exit::SentHeld => Self::Unchanged,
            Exit::ArrivingPushed | Exit::ArrivingEmpty | Exit::ArrivingLater => Self::Push,
            Exit::SentForwarded => Self::Gateway,
            Exit::Direct => Self::Direct,
            Exit::LookupUnreachable | Exit::PromisedFailed | Exit::SentFailed | Exit::SentUnreachable => {
                Self::Failed
            }
            Exit::LookupAnnounced
            | Exit::LookupRedirected
            | Exit::LookupPageLoad
            | Exit::LookupNoPageLoad
            | Exit::LookupNavigation
            | Exit::LookupIneligible
            | Exit::ManifestAnnounced
            | Exit::ManifestNotFound
            | Exit::ManifestTime
            | Exit::ManifestOpen
            | Exit::PromisedHead
            | Exit::PromisedWithdrawn
            | Exit::PromisedMismatch
            | Exit::PromisedUsed
            | Exit::PromisedStuck
            | Exit::PromisedLost
            | Exit::PromisedSilent
            | Exit::ArrivingBroken
            | Exit::ArrivingStuck
            | Exit::ArrivingLost
            | Exit::ArrivingSilent
            | Exit::SentHeldMissing
            | Exit::SentBaseMissing
            | Exit::SentPromised
            | Exit::SentAnnounced
            | Exit::SentPromisedUnknown
            | Exit::SentRepeated
            | Exit::SentLost => return None,
        })
    }
}

/// How a response ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResponseEnd {
    /// It has not ended.
    #[default]
    Running,
    /// The browser received all of it.
    Complete,
    /// The browser closed its connection before the end.
    Left,
    /// It ended early, so the browser's connection was aborted.
    Broken,
}

impl RequestRecord {
    /// The URL as the journal keeps it.
    pub(super) fn kept_url(url: &str) -> String {
        url.chars().take(MAX_URL).collect()
    }

    pub(super) fn left(&mut self, exit: PhaseExit, at_ms: u64) {
        if let Some(source) = Source::of(exit) {
            self.source = source;
        }
        if self.phases.len() < MAX_PHASES {
            self.phases.push((Cow::Borrowed(exit.name()), at_ms));
        }
    }

    /// The host that was asked for.
    pub fn host(&self) -> &str {
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let end = authority.rfind(':').filter(|end| {
            authority[*end..]
                .bytes()
                .skip(1)
                .all(|byte| byte.is_ascii_digit())
        });
        &authority[..end.unwrap_or(authority.len())]
    }

    /// Scheme, host and port of the URL.
    pub(super) fn origin(&self) -> &str {
        let start = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[start..].find(['/', '?', '#']);
        &self.url[..end.map_or(self.url.len(), |end| start + end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_origin_are_those_of_the_url() {
        for (url, host, origin) in [
            ("http://a.test/x:1?y", "a.test", "http://a.test"),
            ("https://a.test:8443/", "a.test", "https://a.test:8443"),
            ("http://[::1]:81/", "[::1]", "http://[::1]:81"),
            ("http://[::1]", "[::1]", "http://[::1]"),
            ("nonsense", "", "nonsense"),
            ("", "", ""),
        ] {
            let record = RequestRecord {
                url: url.to_owned(),
                ..RequestRecord::default()
            };
            assert_eq!((record.host(), record.origin()), (host, origin), "{url}");
        }
    }

    #[test]
    fn a_record_survives_its_file() {
        let mut record = RequestRecord {
            number: 3,
            url: RequestRecord::kept_url(&"é".repeat(600)),
            coding: Some("zstd".into()),
            ..RequestRecord::default()
        };
        for _ in 0..100 {
            record.left(PhaseExit::SentForwarded, 7);
        }
        assert_eq!(
            (record.source, record.phases.len()),
            (Source::Gateway, MAX_PHASES)
        );
        assert_eq!(record.url.chars().count(), MAX_URL);
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<RequestRecord>(&line).unwrap(), record);
        // A file of another version.
        assert_eq!(
            serde_json::from_str::<RequestRecord>("{\"number\":3,\"more\":1}")
                .unwrap()
                .number,
            3
        );
    }
}
