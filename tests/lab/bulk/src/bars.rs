//! Bars of the transport: the figures with a limit, by link.
mod carriers;
mod conditions;

use std::time::Duration;

use longhaul_netem::LinkDefinition;
use longhaul_report::Bar;
use longhaul_types::ByteCount;

use crate::{
    exchange::REQUEST,
    experiment::{Buffer, Experiment, Rival, SessionBefore},
    measured::{Bulk, Bundle, Measured, OutageEnd, Outcome, TwoFlows},
    stage::float,
    system::System,
};

/// Longhaul's full packet with its headers.
const PACKET: ByteCount = ByteCount::new(1280);
/// Length of the IPv4 and UDP headers.
const HEADERS: u64 = 28;
/// Maximum bytes of the first datagram in addition to early data.
const HANDSHAKE: u64 = 174;
/// Maximum time from a packet's arrival until the application has its bytes, on a loaded machine.
const WAKING: Duration = Duration::from_millis(20);

/// Limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

/// The bars of an experiment. Only Longhaul has limits; figures of other systems are for comparison.
struct Bars<'a> {
    measured: &'a Measured,
    bars: Vec<Bar>,
}

impl Bars<'_> {
    fn add(&mut self, id: impl Into<String>, value: f64, limit: Limit) {
        if !value.is_finite() {
            return;
        }
        let limit = match self.measured.system {
            System::Longhaul => limit,
            System::LonghaulTls
            | System::LonghaulQuic
            | System::Cubic
            | System::Bbr
            | System::Quinn
            | System::QuinnTuned
            | System::QuinnBbr => Limit::None,
        };
        let (limit, met) = match limit {
            Limit::None => (None, None),
            Limit::AtLeast(limit) => (Some(limit), Some(value >= limit)),
            Limit::AtMost(limit) => (Some(limit), Some(value <= limit)),
            Limit::Between(least, most) => (Some(least), Some((least..=most).contains(&value))),
        };
        self.bars.push(Bar {
            id: id.into(),
            link: self.measured.link.clone(),
            system: self.measured.system.name().to_owned(),
            value,
            limit,
            met,
        });
    }

    fn add_some(&mut self, id: impl Into<String>, value: Option<f64>, limit: Limit) {
        if let Some(value) = value {
            self.add(id, value, limit);
        }
    }
}

/// Returns the figures of an experiment as bars, with the transport's limits if they are defined for this
/// link. A figure that could not be measured has no bar; [`Measured::errors`] contains the reason.
pub fn bars(link: &LinkDefinition, measured: &Measured) -> Vec<Bar> {
    let mut bars = Bars {
        measured,
        bars: Vec::new(),
    };
    match (&measured.outcome, measured.experiment) {
        (
            Some(Outcome::Bulk(bulk)),
            Experiment::Bulk {
                loss_per_mille: 0, ..
            },
        ) => {
            undisturbed_bulk(&mut bars, link, bulk);
        }
        (Some(Outcome::Bulk(bulk)), Experiment::Bulk { loss_per_mille, .. }) => {
            lossy_bulk(&mut bars, link, bulk, loss_per_mille);
        }
        (Some(Outcome::Bundle(bundle)), Experiment::Bundle { bytes, session }) => match session {
            SessionBefore::Open => open_bundle(&mut bars, link, bundle, bytes),
            SessionBefore::None => first_bundle(&mut bars, link, bundle, bytes),
        },
        (Some(Outcome::Outage(outage)), Experiment::Outage { length }) => {
            after_outage(&mut bars, link, outage, length);
        }
        (Some(Outcome::TwoFlows(flows)), Experiment::TwoFlows { rival, buffer, .. }) => {
            two_flows(&mut bars, link, flows, rival, buffer);
        }
        (Some(Outcome::Priority(priority)), Experiment::Priority { .. }) => {
            conditions::messages(&mut bars, link, priority);
        }
        (Some(Outcome::Bulk(bulk)), Experiment::Traced { offset, .. }) => {
            conditions::trace(&mut bars, link, bulk, offset);
        }
        (Some(Outcome::Bulk(bulk)), Experiment::Reordered { .. }) => conditions::reordered(&mut bars, bulk),
        (Some(Outcome::AddressChange(changed)), Experiment::AddressChange) => {
            conditions::address_change(&mut bars, link, changed);
        }
        (Some(Outcome::UdpDied(died)), Experiment::UdpDies) => carriers::udp_died(&mut bars, link, died),
        (Some(Outcome::Opened(opened)), Experiment::UdpBlocked { network }) => {
            carriers::opened(&mut bars, link, *opened, network);
        }
        (Some(Outcome::WrongProfile(found)), Experiment::WrongProfile { wrong_rates }) => {
            conditions::wrong_profile(&mut bars, link, found, wrong_rates);
        }
        (Some(Outcome::Idle(idle)), Experiment::Idle { length }) => conditions::idle(&mut bars, idle, length),
        (Some(Outcome::Cancel(cancelled)), Experiment::Cancel) => {
            conditions::cancel(&mut bars, link, cancelled);
        }
        (Some(Outcome::LostPacket(found)), Experiment::LostPacket { which, .. }) => {
            conditions::lost_packet(&mut bars, link, found, which);
        }
        // There are no measurements.
        (_, _) => {}
    }
    bars.bars
}

fn undisturbed_bulk(bars: &mut Bars<'_>, link: &LinkDefinition, bulk: &Bulk) {
    use Limit::{AtLeast, AtMost, None};
    let (utilisation, queue, goodput, feedback) = match link.name.as_str() {
        "gprs-3+1" => (AtLeast(0.92), AtMost(1.0), None, AtMost(0.10)),
        "umts-384" => (AtLeast(0.95), AtMost(0.230), None, AtMost(0.06)),
        "geo-sat" => (AtLeast(0.95), AtMost(0.270), None, AtMost(0.06)),
        "wlan-lossy" => (AtLeast(0.95), None, AtLeast(0.92), AtMost(0.06)),
        "gprs-class6" => (None, None, None, AtMost(0.10)),
        _ => (None, None, None, AtMost(0.06)),
    };
    bars.add("1 bulk utilisation", bulk.utilisation, utilisation);
    bars.add("1 bulk queue p50 (s)", bulk.queue_p50_s, None);
    bars.add("1 bulk queue p95 (s)", bulk.queue_p95_s, queue);
    bars.add("1 bulk goodput (share of the link)", bulk.goodput, goodput);
    bars.add("1 bulk loss", bulk.lost, None);
    bars.add_some("1 bulk sent again", bulk.retransmitted, None);
    bars.add("7 feedback (share of the uplink)", bulk.feedback, feedback);
    if let Some(cpu) = bars.measured.cpu {
        bars.add(
            "9 processor time of the receiver's thread (s)",
            cpu.client_s,
            None,
        );
        bars.add("9 processor time of the sender's thread (s)", cpu.server_s, None);
    }
}

fn lossy_bulk(bars: &mut Bars<'_>, link: &LinkDefinition, bulk: &Bulk, loss_per_mille: u16) {
    let percent = f64::from(loss_per_mille) / 10.0;
    let delivered = 1.0 - percent / 100.0;
    let goodput = match loss_per_mille {
        10 if link.name == "geo-sat" => Limit::AtLeast(0.93),
        50 => Limit::AtLeast(0.93),
        100 => Limit::AtLeast(0.88),
        _ => Limit::None,
    };
    let what = |what: &str| format!("3 bulk with {percent} % loss, {what}");
    bars.add(what("goodput / (1 - loss)"), bulk.goodput / delivered, goodput);
    bars.add(what("utilisation"), bulk.utilisation, Limit::None);
    bars.add(what("queue p95 (s)"), bulk.queue_p95_s, Limit::None);
    let beyond = bulk.retransmitted.map(|again| again - bulk.lost);
    bars.add_some(what("sent again beyond the loss"), beyond, Limit::AtMost(0.01));
}

fn open_bundle(bars: &mut Bars<'_>, link: &LinkDefinition, bundle: &Bundle, bytes: u64) {
    let busy = match link.name.as_str() {
        "gprs-3+1" | "umts-384" => Limit::AtLeast(0.985),
        _ => Limit::None,
    };
    let what = |what: &str| format!("0 bundle {} kB {what}", bytes / 1000);
    bars.add_some(what("hop busy share"), bundle.busy, busy);
    bars.add(what("first byte (s)"), bundle.first_byte_s, Limit::None);
    bars.add(what("last byte (s)"), bundle.last_byte_s, Limit::None);
}

fn first_bundle(bars: &mut Bars<'_>, link: &LinkDefinition, bundle: &Bundle, bytes: u64) {
    // One round trip plus serialisation: only the request and the first packet of the response cross the
    // link.
    let request = ByteCount::new(REQUEST as u64 + HANDSHAKE + HEADERS) / link.rate_up();
    let jitter = (link.hop.down.jitter + link.hop.up.jitter) / 2;
    let first = link.rtt() + jitter + request + PACKET / link.rate_down() + WAKING;
    let last = match (link.name.as_str(), bytes) {
        ("geo-sat", 60_000) => Limit::AtMost(0.75),
        ("umts-384", 60_000) => Limit::AtMost(1.85),
        ("gprs-3+1", 60_000) => Limit::AtMost(13.9),
        _ => Limit::None,
    };
    let first = Limit::AtMost(first.as_secs_f64());
    bars.add("5 new session first byte (s)", bundle.first_byte_s, first);
    let what = format!("5 new session {} kB response (s)", bytes / 1000);
    bars.add(what, bundle.last_byte_s, last);
}

fn after_outage(bars: &mut Bars<'_>, link: &LinkDefinition, outage: &OutageEnd, length: Duration) {
    let packet = PACKET / link.rate_down();
    let first = Duration::from_secs(1) + link.rtt() + packet + WAKING;
    let what = |bar: u8, what: &str| format!("{bar} outage {} s {what}", length.as_secs());
    bars.add_some(
        what(6, "first byte after it (s)"),
        outage.first_byte_s,
        Limit::AtMost(first.as_secs_f64()),
    );
    bars.add_some(what(6, "rate regained"), outage.regained, Limit::AtLeast(0.8));
    let window = float((link.rate_down() * (link.rtt() + target_queue(link))).bytes());
    // Undefined if the outage is shorter than the time of its detection.
    let noticed = outage.srtt_s.map(|srtt| srtt * 3.0 + 1.0);
    let noticed = noticed.filter(|noticed| *noticed < length.as_secs_f64());
    bars.add_some(
        what(6, "noticed after (s)"),
        outage.detected_s,
        noticed.map_or(Limit::None, Limit::AtMost),
    );
    bars.add(
        what(6, "connections lost"),
        float(outage.connections_lost),
        Limit::AtMost(0.0),
    );
    bars.add_some(
        what(6, "duplicate bytes"),
        outage.duplicate_bytes.map(float),
        Limit::AtMost(window),
    );
    if length >= Duration::from_secs(40) {
        let probes = Limit::AtMost(4096.0);
        bars.add(what(7, "probes down (bytes)"), float(outage.probes_down), probes);
        bars.add(what(7, "probes up (bytes)"), float(outage.probes_up), probes);
    }
}

fn two_flows(bars: &mut Bars<'_>, link: &LinkDefinition, flows: &TwoFlows, rival: Rival, buffer: Buffer) {
    let (pair, buffered) = match (rival, buffer) {
        (Rival::Same, Buffer::Profile) => ("two flows", String::new()),
        (Rival::Same, Buffer::Bdp(count)) => ("two flows", format!(" ({count} BDP)")),
        (Rival::Cubic, Buffer::Profile) => ("beside CUBIC", String::new()),
        (Rival::Cubic, Buffer::Bdp(count)) => ("beside CUBIC", format!(" ({count} BDP)")),
    };
    let what = |what: &str| format!("8 {pair}{buffered} {what}");
    let fair_link = matches!(link.name.as_str(), "umts-384" | "geo-sat" | "wlan-lossy");
    let (jain, newcomer) = match rival {
        Rival::Same if fair_link => (Limit::AtLeast(0.90), Limit::AtLeast(0.20)),
        Rival::Same | Rival::Cubic => (Limit::None, Limit::None),
    };
    let share = match (rival, buffer) {
        (Rival::Cubic, Buffer::Bdp(1)) => Limit::Between(0.25, 0.75),
        (Rival::Cubic, Buffer::Bdp(4)) => Limit::AtLeast(0.15),
        (Rival::Same | Rival::Cubic, _) => Limit::None,
    };
    bars.add(what("Jain index"), flows.jain, jain);
    bars.add(what("share of the first"), flows.first_share, share);
    bars.add_some(
        what("least share 20 s after joining"),
        flows.least_share_after_joining,
        newcomer,
    );
    bars.add(what("queue p95 (s)"), flows.queue_p95_s, Limit::None);
    bars.add(what("utilisation"), flows.utilisation, Limit::None);
}

/// Returns the target queueing delay of the congestion control on a link without rate changes.
fn target_queue(link: &LinkDefinition) -> Duration {
    let by_time = (link.rtt() / 10).clamp(Duration::from_millis(25), Duration::from_millis(200));
    by_time.max((PACKET / link.rate_down()) * 5 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(system: System, link: &str, experiment: Experiment, outcome: Outcome) -> Measured {
        Measured {
            link: link.to_owned(),
            system,
            experiment,
            outcome: Some(outcome),
            series: Vec::new(),
            cpu: None,
            lateness_p99_s: 0.0,
            errors: Vec::new(),
        }
    }

    fn link(name: &str) -> LinkDefinition {
        let mut all = LinkDefinition::built_in();
        all.find(|link| link.name == name).expect("a built-in link")
    }

    fn bulk(system: System, bulk: Bulk) -> Measured {
        let experiment = Experiment::Bulk {
            length: Duration::from_secs(60),
            loss_per_mille: 0,
        };
        measured(system, "umts-384", experiment, Outcome::Bulk(bulk))
    }

    #[test]
    fn only_longhaul_has_limits() {
        let found = Bulk {
            utilisation: 0.96,
            queue_p95_s: 0.5,
            ..Bulk::default()
        };
        let own = bars(&link("umts-384"), &bulk(System::Longhaul, found));
        let met = |id: &str| own.iter().find(|bar| bar.id == id).and_then(|bar| bar.met);
        assert_eq!(met("1 bulk utilisation"), Some(true));
        assert_eq!(met("1 bulk queue p95 (s)"), Some(false));
        let other = bars(&link("umts-384"), &bulk(System::Bbr, found));
        assert_eq!(own.len(), other.len());
        assert!(other.iter().all(|bar| bar.limit.is_none() && bar.met.is_none()));
    }

    #[test]
    fn missing_figures_have_no_bar() {
        let found = Bulk {
            utilisation: f64::NAN,
            ..Bulk::default()
        };
        let bars = bars(&link("umts-384"), &bulk(System::Longhaul, found));
        assert!(bars.iter().all(|bar| bar.value.is_finite()));
        assert!(!bars.iter().any(|bar| bar.id == "1 bulk utilisation"));
    }

    #[test]
    fn shares_beside_cubic_have_two_limits() {
        let experiment = Experiment::TwoFlows {
            rival: Rival::Cubic,
            buffer: Buffer::Bdp(1),
            length: Duration::from_secs(120),
        };
        for (share, met) in [(0.2, false), (0.5, true), (0.8, false)] {
            let flows = TwoFlows {
                first_share: share,
                ..TwoFlows::default()
            };
            let measured = measured(System::Longhaul, "umts-384", experiment, Outcome::TwoFlows(flows));
            let bars = bars(&link("umts-384"), &measured);
            let bar = bars.iter().find(|bar| bar.id.contains("share of the first"));
            assert_eq!(bar.and_then(|bar| bar.met), Some(met));
        }
    }

    #[test]
    fn traces_have_limits_at_their_beginning_only() {
        let traced = |name: &str, offset: u64| {
            let experiment = Experiment::Traced {
                length: Duration::from_secs(60),
                offset: Duration::from_secs(offset),
            };
            let found = Bulk {
                utilisation: 0.85,
                queue_p95_s: 0.6,
                ..Bulk::default()
            };
            let measured = measured(System::Longhaul, name, experiment, Outcome::Bulk(found));
            let link = LinkDefinition {
                name: name.to_owned(),
                ..link("umts-384")
            };
            let bars = bars(&link, &measured);
            let met = |what: &str| {
                bars.iter()
                    .find(|bar| bar.id.ends_with(what))
                    .and_then(|bar| bar.met)
            };
            (met("utilisation"), met("queue p95 (s)"))
        };
        assert_eq!(traced("TMobile-UMTS-driving", 0), (Some(true), Some(false)));
        assert_eq!(traced("TMobile-UMTS-driving", 150), (None, None));
        assert_eq!(traced("Verizon-EVDO-driving", 0), (Some(true), Some(true)));
    }
}
