//! Requests of browsers that a visit does not teach, by reason.
use prometheus_client::metrics::{counter::Counter, family::Family};

/// Reason why learning refuses a request that no plan contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// A frame or another page made the request: the page's plan does not include it.
    Requester,
    /// No plan can contain requests of this mode.
    Mode,
    /// The page load has as many unplanned requests as are learned.
    TooMany,
    /// The URL is longer than learned URLs may be.
    TooLong,
    /// The record of the page has no room.
    NoRoom,
    /// Other devices are not taught: the page was requested with credentials, in a frame, or by a personal URL.
    Page,
    /// Other devices are not taught: the gateway has no response to the request.
    Unanswered,
    /// Other devices are not taught: the request carried credentials that this visit did not begin with.
    Credentials,
    /// Other devices are not taught: a script added a field of its own to the request.
    Fields,
    /// Other devices are not taught: the status depends on who asks, or is an error of the server.
    Status,
    /// Other devices are not taught: the URL identifies a user or differs at each visit.
    Url,
    /// Other devices are not taught: nothing that the page loads names the URL's host.
    Host,
    /// Other devices are not taught before a second device asks for the URL.
    OneDevice,
}

impl Refusal {
    /// All reasons.
    const ALL: [Self; 13] = [
        Self::Requester,
        Self::Mode,
        Self::TooMany,
        Self::TooLong,
        Self::NoRoom,
        Self::Page,
        Self::Unanswered,
        Self::Credentials,
        Self::Fields,
        Self::Status,
        Self::Url,
        Self::Host,
        Self::OneDevice,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Requester => "requester",
            Self::Mode => "mode",
            Self::TooMany => "too-many",
            Self::TooLong => "too-long",
            Self::NoRoom => "no-room",
            Self::Page => "page",
            Self::Unanswered => "unanswered",
            Self::Credentials => "credentials",
            Self::Fields => "fields",
            Self::Status => "status",
            Self::Url => "url",
            Self::Host => "host",
            Self::OneDevice => "one-device",
        }
    }
}

/// Number of refused requests, by reason.
#[derive(Clone, Debug)]
pub struct RefusalCounters(Family<[(&'static str, &'static str); 1], Counter>);

impl Default for RefusalCounters {
    fn default() -> Self {
        let counters = Self(Family::default());
        for reason in Refusal::ALL {
            // A series exists before its first event, so that rates can be computed from it.
            counters.add(reason, 0);
        }
        counters
    }
}

impl RefusalCounters {
    /// Counts refused requests.
    pub fn add(&self, reason: Refusal, requests: usize) {
        self.0
            .get_or_create(&[("reason", reason.label())])
            .inc_by(requests as u64);
    }

    /// The family to register.
    pub(super) fn family(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.0.clone()
    }
}
