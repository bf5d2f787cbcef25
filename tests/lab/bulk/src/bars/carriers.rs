//! Bars of networks that drop UDP.
use longhaul_netem::LinkDefinition;

use super::{Bars, Limit, target_queue};
use crate::{
    measured::{Opened, UdpDied},
    stage::float,
    udp_blocked::KnownNetwork,
};

pub(super) fn udp_died(bars: &mut Bars<'_>, link: &LinkDefinition, died: &UdpDied) {
    use Limit::{AtLeast, AtMost, None};
    let (pause, goodput) = match link.name.as_str() {
        "lte" => (AtMost(1.5), AtLeast(0.90)),
        "umts-384" => (AtMost(3.0), AtLeast(0.90)),
        "geo-sat" => (AtMost(4.0), None),
        "wlan-lossy" => (None, AtLeast(0.75)),
        _ => (None, None),
    };
    let what = |what: &str| format!("11 UDP dies, {what}");
    bars.add_some(what("pause (s)"), died.pause_s, pause);
    bars.add(
        what("goodput over TLS (share of the link)"),
        died.over_tls.goodput,
        goodput,
    );
    bars.add(what("queue p95 over TLS (s)"), died.over_tls.queue_p95_s, None);
    let window = float((link.rate_down() * (link.rtt() + target_queue(link))).bytes());
    let again = died.duplicate_bytes.map(float);
    bars.add_some(what("repeated bytes"), again, AtMost(window));
    bars.add(
        what("connections lost"),
        float(died.connections_lost),
        AtMost(0.0),
    );
}

pub(super) fn opened(bars: &mut Bars<'_>, link: &LinkDefinition, opened: Opened, network: KnownNetwork) {
    let (what, limit) = match network {
        KnownNetwork::Unknown => ("unknown", 0.9),
        KnownNetwork::Remembered => ("remembered", 0.35),
    };
    let limit = if link.name == "lte" {
        Limit::AtMost(limit)
    } else {
        Limit::None
    };
    let what = format!("11 UDP blocked, {what} network, session open after (s)");
    bars.add(what, opened.open_s, limit);
}
