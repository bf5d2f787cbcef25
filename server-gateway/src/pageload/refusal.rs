//! Requests of browsers that a visit does not teach, by reason.
use prometheus_client::metrics::{counter::Counter, family::Family};

/// Reason why learning refuses a request that no plan contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// A frame or another page made the request: the page's plan does not include it.
    Requester,
    /// The page load has as many unplanned requests as are learned.
    TooMany,
    /// The URL is longer than learned URLs may be.
    TooLong,
    /// The record of the page has no room.
    NoRoom,
    /// Other devices are not taught: the page's own request or response belongs to one user.
    Page,
    /// Other devices are not taught: the gateway has no response to the request.
    Unanswered,
    /// Other devices are not taught: the request or its response belongs to one user.
    Exchange,
    /// Other devices are not taught: the URL identifies a user or differs at each visit.
    Url,
    /// Other devices are not taught: no document of the page refers to the URL's host.
    Host,
}

impl Refusal {
    /// All reasons.
    const ALL: [Self; 9] = [
        Self::Requester,
        Self::TooMany,
        Self::TooLong,
        Self::NoRoom,
        Self::Page,
        Self::Unanswered,
        Self::Exchange,
        Self::Url,
        Self::Host,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Requester => "requester",
            Self::TooMany => "too-many",
            Self::TooLong => "too-long",
            Self::NoRoom => "no-room",
            Self::Page => "page",
            Self::Unanswered => "unanswered",
            Self::Exchange => "exchange",
            Self::Url => "url",
            Self::Host => "host",
        }
    }
}

/// Number of refused requests, by reason.
#[derive(Clone, Debug)]
pub(crate) struct RefusalCounters(Family<[(&'static str, &'static str); 1], Counter>);

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
    pub(crate) fn add(&self, reason: Refusal, requests: usize) {
        self.0
            .get_or_create(&[("reason", reason.label())])
            .inc_by(requests as u64);
    }

    /// The family to register.
    pub(super) fn family(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.0.clone()
    }
}
