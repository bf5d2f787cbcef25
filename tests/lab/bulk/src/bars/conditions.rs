//! Bars of recorded traces, messages beside a download, lost and reordered packets, address changes, wrong link profiles, idle sessions
//! and cancelled downloads.
use std::time::Duration;

use longhaul_netem::LinkDefinition;
use longhaul_types::ByteCount;

use super::{Bars, HEADERS, Limit, PACKET, WAKING, target_queue};
use crate::{
    exchange::REQUEST,
    experiment::{LostPacket, WrongRates},
    measured::{AddressChanged, Bulk, Cancelled, Idle, LostPackets, Priority, WrongProfile},
    priority::MESSAGE,
    stage::float,
};

/// Minimum time between packets of an idle session, in each direction.
const KEEP_ALIVE: u64 = 25;

/// Adds the bars of a part of a trace. Only the beginning of a trace has limits.
pub(super) fn trace(bars: &mut Bars<'_>, link: &LinkDefinition, bulk: &Bulk, offset: Duration) {
    use Limit::{AtLeast, AtMost, None};
    let (utilisation, queue) = match (link.name.as_str(), offset.as_secs()) {
        ("TMobile-UMTS-driving", 0) => (AtLeast(0.80), AtMost(0.5)),
        ("Verizon-LTE-short", 0) => (AtLeast(0.92), AtMost(0.45)),
        ("Verizon-EVDO-driving", 0) => (AtLeast(0.75), AtMost(0.9)),
        _ => (None, None),
    };
    let what = |what: &str| format!("2 trace from {} s {what}", offset.as_secs());
    bars.add(what("utilisation"), bulk.utilisation, utilisation);
    bars.add(what("queue p50 (s)"), bulk.queue_p50_s, None);
    bars.add(what("queue p95 (s)"), bulk.queue_p95_s, queue);
    bars.add(what("goodput (share of the link)"), bulk.goodput, None);
    bars.add_some(what("sent again"), bulk.retransmitted, None);
    bars.add(
        what("feedback (share of the uplink)"),
        bulk.feedback,
        AtMost(0.06),
    );
}

pub(super) fn messages(bars: &mut Bars<'_>, link: &LinkDefinition, priority: &Priority) {
    let target = target_queue(link);
    let own = ByteCount::new(REQUEST as u64 + HEADERS) / link.rate_up()
        + ByteCount::new(MESSAGE + 2 * HEADERS) / link.rate_down();
    // For a trace, the mean rate: the target on a link of constant rate.
    let limit = link.rtt() + own + target * 2 + WAKING;
    let limit = Limit::AtMost(limit.as_secs_f64());
    bars.add("10 message alone, median (s)", priority.alone_s, Limit::None);
    bars.add("10 message beside bulk, median (s)", priority.p50_s, Limit::None);
    bars.add("10 message beside bulk, p95 (s)", priority.p95_s, limit);
    bars.add("10 utilisation meanwhile", priority.utilisation, Limit::None);
}

pub(super) fn reordered(bars: &mut Bars<'_>, bulk: &Bulk) {
    bars.add("3 reordered bulk, utilisation", bulk.utilisation, Limit::None);
    let needless = bulk.retransmitted.map(|again| (again - bulk.lost).max(0.0));
    bars.add_some(
        "3 reordered bulk, sent again needlessly",
        needless,
        Limit::AtMost(0.005),
    );
}

pub(super) fn address_change(bars: &mut Bars<'_>, link: &LinkDefinition, changed: &AddressChanged) {
    let pause = link.rtt() + Duration::from_millis(200) + PACKET / link.rate_down() + WAKING;
    bars.add_some(
        "6 address change, pause (s)",
        changed.pause_s,
        Limit::AtMost(pause.as_secs_f64()),
    );
    bars.add_some("6 address change, rate regained", changed.regained, Limit::None);
    bars.add(
        "6 address change, connections lost",
        float(changed.connections_lost),
        Limit::AtMost(0.0),
    );
}

pub(super) fn wrong_profile(
    bars: &mut Bars<'_>,
    link: &LinkDefinition,
    found: &WrongProfile,
    wrong_rates: WrongRates,
) {
    let what = |what: &str| match wrong_rates {
        WrongRates::TooFast => format!("8 profile x10, {what}"),
        WrongRates::TooSlow => format!("8 profile x0.1, {what}"),
    };
    match wrong_rates {
        WrongRates::TooFast => {
            let queue = (target_queue(link) * 3).as_secs_f64();
            bars.add(what("settling (s)"), found.settled_s, Limit::None);
            bars.add(
                what("queue p95 after it (s)"),
                found.queue_p95_s,
                Limit::AtMost(queue),
            );
            bars.add(what("loss after 5 RTT"), found.lost, Limit::AtMost(0.05));
        }
        WrongRates::TooSlow => {
            let limit = Duration::from_secs(5).max(link.rtt() * 10).as_secs_f64();
            // A rate that was never reached counts with the full time of the measurement.
            let reached = found.reached_s.unwrap_or(crate::profile::LENGTH.as_secs_f64());
            bars.add(what("90 % of the rate after (s)"), reached, Limit::AtMost(limit));
            bars.add(what("queue p95 (s)"), found.queue_p95_s, Limit::None);
        }
    }
}

pub(super) fn idle(bars: &mut Bars<'_>, idle: &Idle, length: Duration) {
    let most = Limit::AtMost(float(length.as_secs() / KEEP_ALIVE));
    bars.add("7 idle session, packets up", float(idle.packets_up), most);
    bars.add("7 idle session, packets down", float(idle.packets_down), most);
    let dead = if idle.message_s.is_some() { 0.0 } else { 1.0 };
    bars.add("7 idle session, connections lost", dead, Limit::AtMost(0.0));
    bars.add_some(
        "7 idle session, message afterwards (s)",
        idle.message_s,
        Limit::None,
    );
}

pub(super) fn cancel(bars: &mut Bars<'_>, link: &LinkDefinition, cancelled: &Cancelled) {
    let window = float((link.rate_down() * (link.rtt() + target_queue(link))).bytes());
    let jitter = (link.hop.down.jitter + link.hop.up.jitter) / 2;
    let stopped = link.rtt() + jitter + WAKING;
    bars.add(
        "10 cancel, sender stops after (s)",
        cancelled.stopped_s,
        Limit::AtMost(stopped.as_secs_f64()),
    );
    bars.add(
        "10 cancel, bytes sent meanwhile",
        float(cancelled.wasted_bytes),
        Limit::AtMost(window),
    );
}

pub(super) fn lost_packet(
    bars: &mut Bars<'_>,
    link: &LinkDefinition,
    found: &LostPackets,
    which: LostPacket,
) {
    if found.messages == 0 {
        return;
    }
    let jitter = link.hop.down.jitter + link.hop.up.jitter;
    let (what, limit) = match which {
        LostPacket::Tail => (
            "lost tail",
            link.rtt() + jitter / 2 + Duration::from_millis(60).max((PACKET / link.rate_down()) * 2),
        ),
        // SRTT + 4 RTTVAR + 25 ms with the bare round trip for SRTT, so the serialisation of packets counts
        // against the limit; the mean deviation of two jitters is at most a quarter of their sum.
        LostPacket::Request => ("lost request", link.rtt() + jitter + Duration::from_millis(25)),
    };
    let limit = Limit::AtMost((limit + WAKING).as_secs_f64());
    bars.add(format!("4 {what}, undisturbed (s)"), found.alone_s, Limit::None);
    bars.add(format!("4 {what}, extra time p50 (s)"), found.extra_p50_s, limit);
    bars.add(format!("4 {what}, extra time p95 (s)"), found.extra_p95_s, limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bars,
        experiment::Experiment,
        measured::{Measured, Outcome},
        system::System,
    };

    fn link(name: &str) -> LinkDefinition {
        let mut all = LinkDefinition::built_in();
        all.find(|link| link.name == name).expect("a built-in link")
    }

    /// Returns the limit of the bar whose name ends with this text.
    fn limit(link: &LinkDefinition, experiment: Experiment, outcome: Outcome, what: &str) -> Option<f64> {
        let measured = Measured {
            link: link.name.clone(),
            system: System::Longhaul,
            experiment,
            outcome: Some(outcome),
            series: Vec::new(),
            cpu: None,
            lateness_p99_s: 0.0,
            errors: Vec::new(),
        };
        let bars = bars(link, &measured);
        let bar = bars.iter().find(|bar| bar.id.ends_with(what));
        bar.expect("the experiment has this bar").limit
    }

    #[test]
    fn an_idle_session_may_send_a_packet_every_25_seconds() {
        let length = Duration::from_secs(100);
        let experiment = Experiment::Idle { length };
        let found = Outcome::Idle(Idle::default());
        assert_eq!(limit(&link("lte"), experiment, found, "packets up"), Some(4.0));
    }

    #[test]
    fn a_lost_request_costs_a_probe_timeout_of_the_bare_round_trip() {
        let link = link("umts-384");
        let experiment = Experiment::LostPacket {
            which: LostPacket::Request,
            pairs: 1,
        };
        let found = |alone_s| {
            Outcome::LostPacket(LostPackets {
                alone_s,
                messages: 1,
                ..LostPackets::default()
            })
        };
        let limits = [0.1, 9.0].map(|alone| limit(&link, experiment, found(alone), "extra time p50 (s)"));
        let jitter = link.hop.down.jitter + link.hop.up.jitter;
        let expected = link.rtt() + jitter + Duration::from_millis(25) + WAKING;
        assert_eq!(
            limits,
            [Some(expected.as_secs_f64()); 2],
            "whatever the message itself took"
        );
    }

    #[test]
    fn messages_on_traces_have_the_limit_of_their_mean_rate() {
        let trace: String = (1..=1000).map(|line| format!("{}\n", line * 12)).collect();
        let delay = Duration::from_millis(20);
        let queue = ByteCount::kb(750);
        let link = LinkDefinition::from_traces("steady", &trace, &trace, delay, queue).expect("a trace");
        let length = Duration::from_secs(60);
        let found = Outcome::Priority(Priority::default());
        let found = limit(
            &link,
            Experiment::Priority { length },
            found,
            "beside bulk, p95 (s)",
        );
        // Round trip 40 ms, twice a target of 25 ms, 20 ms for waking, and at most 30 ms for the bytes at 1
        // Mbit/s.
        assert!(
            found.is_some_and(|limit| (0.11..0.14).contains(&limit)),
            "{found:?}"
        );
    }
}
