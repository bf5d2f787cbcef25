//! The texts and curves of the dashboard that change while it is open, by the ids of their nodes.
use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    figures,
    samples::Samples,
    status::{HoldOutStatus, PeriodSavings, Status},
};
use crate::savings::SavedByCause;

/// Periods of the savings, by the beginning of their ids.
pub(crate) const PERIODS: [&str; 3] = ["today", "month", "all"];

/// Texts and curves by the ids of their nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LiveFigures {
    /// State of the hop, which selects its colours.
    pub(crate) state: String,
    /// Contents of text nodes.
    pub(crate) text: BTreeMap<String, String>,
    /// Paths of curves.
    pub(crate) path: BTreeMap<&'static str, String>,
}

impl LiveFigures {
    /// Returns the figures of a status.
    pub(crate) fn of(status: &Status, samples: &Samples) -> Self {
        let mut live = Self {
            state: status.state.clone(),
            ..Self::default()
        };
        live.set("headline", headline(status).to_owned());
        live.set("reason", status.reason.clone().unwrap_or_default());
        live.hop(status, samples);
        let kept = &status.savings.kept;
        for (period, savings) in PERIODS.into_iter().zip([&kept.today, &kept.month, &kept.all]) {
            live.period(period, savings);
        }
        live.set("requests", status.requests.to_string());
        live.set("failures", status.failures.to_string());
        live.set("direct", status.direct_requests.to_string());
        let compared = status.hold_out.iter().map(HoldOutStatus::text);
        live.set("compared", compared.collect::<Vec<_>>().join("; "));
        live.set("cache", cache(status));
        live
    }

    /// The text of a node.
    pub(crate) fn text(&self, id: &str) -> &str {
        self.text.get(id).map(String::as_str).unwrap_or_default()
    }

    fn set(&mut self, id: &str, text: String) {
        self.text.insert(id.to_owned(), text);
    }

    fn hop(&mut self, status: &Status, samples: &Samples) {
        let session = status.session.as_ref();
        let unknown = || "not measured yet".to_owned();
        let ms = |ms: f64| figures::time(ms / 1000.0);
        self.set("rate", status.link_rate_bps.map_or_else(unknown, figures::rate));
        let rtt = session.and_then(|session| session.rtt_ms);
        self.set("rtt", rtt.map_or_else(unknown, ms));
        let best = session.and_then(|session| session.min_rtt_ms);
        self.set("rtt-best", best.map_or_else(unknown, ms));
        let newest = samples.newest();
        self.set("now-down", figures::rate(newest.down.saturating_mul(8)));
        self.set("now-up", figures::rate(newest.up.saturating_mul(8)));
        let queue = session.map(|_| figures::time(precise(newest.queue_ms) / 1000.0));
        self.set("queue", queue.unwrap_or_else(unknown));
        let (lost, packets) = samples.loss();
        self.set(
            "loss",
            if packets == 0 {
                unknown()
            } else {
                figures::share(lost, packets)
            },
        );
        self.set(
            "silent",
            status
                .silent_s
                .map_or_else(|| "\u{2013}".to_owned(), figures::time),
        );
        self.set("carrier", carrier(status));
        self.set("received", figures::data(status.bytes_down));
        self.set("sent", figures::data(status.bytes_up));
        let (received, trips) = (samples.received(), samples.round_trips());
        self.set("received-most", figures::rate(received.most));
        self.set("rtt-most", ms(precise(trips.most)));
        self.path = BTreeMap::from([
            ("curve-received", received.path),
            ("curve-rtt", trips.path),
            ("absent-received", samples.absences()),
            ("absent-rtt", samples.absences()),
        ]);
    }

    fn period(&mut self, period: &str, savings: &PeriodSavings) {
        let hop = i64::try_from(savings.hop).unwrap_or(i64::MAX);
        let without = hop.saturating_add(savings.saved.bytes);
        self.set(
            &format!("{period}-bytes"),
            figures::signed_data(savings.saved.bytes),
        );
        self.set(&format!("{period}-time"), figures::time(savings.time_s));
        self.set(&format!("{period}-hop"), figures::data(savings.hop));
        self.set(&format!("{period}-without"), figures::signed_data(without));
        for (cause, bytes) in causes(&savings.saved.by_cause) {
            self.set(&format!("{period}-{cause}"), figures::signed_data(bytes));
        }
    }
}

/// The causes by their names in `/status.json`, the largest ones of most links first.
pub(crate) const fn causes(by_cause: &SavedByCause) -> [(&'static str, i64); 6] {
    let SavedByCause {
        coding,
        base,
        pictures,
        cache,
        unchanged,
        headers,
    } = *by_cause;
    [
        ("pictures", pictures),
        ("coding", coding),
        ("base", base),
        ("unchanged", unchanged),
        ("cache", cache),
        ("headers", headers),
    ]
}

/// The state of the hop in one sentence.
fn headline(status: &Status) -> &'static str {
    match status.state.as_str() {
        "open" => "Connected to the gateway",
        "portal" => "This network wants a login first",
        "connecting" => "Connecting to the gateway\u{2026}",
        "stalled" => "The gateway is silent; requests wait and continue when it answers",
        _ => "No connection to the gateway",
    }
}

fn carrier(status: &Status) -> String {
    let is_carrying = matches!(status.state.as_str(), "open" | "stalled");
    let Some(session) = status.session.as_ref().filter(|_| is_carrying) else {
        return "none".to_owned();
    };
    match session.carrier.as_str() {
        "quic" => "QUIC, because UDP does not answer or is not permitted".to_owned(),
        "tls" => {
            let through = status.http_proxy.as_ref().map_or_else(String::new, |proxy| {
                format!(", through the HTTP proxy {proxy} where it is used")
            });
            format!("TLS, because UDP does not answer or is not permitted{through}")
        }
        _ => "UDP".to_owned(),
    }
}

fn cache(status: &Status) -> String {
    if status.cache_quota == 0 {
        return "off".to_owned();
    }
    let (used, quota) = (
        figures::data(status.cache_bytes),
        figures::size(status.cache_quota),
    );
    let bodies = figures::count(status.cache_bodies, "file", "files");
    format!("{used} of {quota}, {bodies}")
}

#[expect(clippy::cast_precision_loss, reason = "a time in ms for people")]
const fn precise(ms: u64) -> f64 {
    ms as f64
}
