//! Credit: the receiver of data measures and grants, the sender paces (transport.md 6, credit.md).
mod controller;
mod delay;
mod loop_time;
mod loss;
mod pacer;
mod rate;
mod window;

pub use controller::{Controller, Grant, PacketSample};
pub use pacer::Pacer;
pub use window::MaxFilter;

use std::time::Duration;

use longhaul_types::{BitRate, LinkProfile};

/// A full packet with IP and UDP headers: the unit `m` of the law.
pub const FULL_PACKET: f64 = 1280.0;
/// A feedback packet with IP and UDP headers, a gap or two included.
const FEEDBACK_SIZE: f64 = 76.0;
/// The share of the feedback's own direction that feedback may take where the profile tells its rate (transport.md 5, bar 7).
const FEEDBACK_SHARE: f64 = 0.1;

/// The feedback interval F in seconds (credit.md 3): `rate` is that of the data in byte/s, `rtt` the smallest round-trip
/// time in seconds, `reverse` the rate of the feedback's direction.
pub fn feedback_interval(rate: f64, rtt: f64, reverse: Option<BitRate>) -> f64 {
    let packet_time = FULL_PACKET / rate.max(1.0);
    let by_data = (8.0 * packet_time).min(0.65 * rtt).max(0.02).max(rtt / 50.0);
    let by_reverse = reverse.map_or(0.0, |rate| {
        FEEDBACK_SIZE / (FEEDBACK_SHARE * rate.bytes_per_second().max(1.0))
    });
    // A profile that claims an absurdly thin reverse direction must not stop feedback.
    by_data.max(by_reverse.min(2.0))
}

/// What a sender may do before the first feedback, and a receiver assumes before the first packet (credit.md 2): the
/// window in bytes and the rate in byte/s.
pub fn initial_grant(
    rate: Option<BitRate>,
    profile: Option<&LinkProfile>,
    reverse: Option<BitRate>,
) -> (f64, f64) {
    match (rate, profile) {
        (Some(rate), Some(profile)) if rate.as_bps() > 0 => {
            let rate = rate.bytes_per_second();
            let rtt = profile.rtt.as_secs_f64().min(10.0);
            let loop_time = rtt + feedback_interval(rate, rtt, reverse) + FULL_PACKET / rate;
            (rate * loop_time + 2.0 * FULL_PACKET, rate * START_MARGIN)
        }
        _ => (
            UNKNOWN_PACKETS * FULL_PACKET,
            UNKNOWN_PACKETS * FULL_PACKET / UNKNOWN_SPREAD.as_secs_f64(),
        ),
    }
}

/// Start-up goes this much above the profile's rate, so that the bottleneck's queue never runs dry for rounding.
const START_MARGIN: f64 = 1.02;
/// Without a profile the first window is 10 packets (RFC 6928), spread over 0.3 s.
const UNKNOWN_PACKETS: f64 = 10.0;
const UNKNOWN_SPREAD: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
