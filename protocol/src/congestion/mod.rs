//! Congestion control: the receiver measures and grants, the sender paces (transport.md section 6,
//! congestion.md).
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

/// Size of a full packet with IP and UDP headers: the least value of m in congestion.md.
pub const FULL_PACKET: f64 = 1280.0;
/// Size of a feedback packet with IP and UDP headers, including one or two gaps.
const FEEDBACK_SIZE: f64 = 76.0;
/// Share of the reverse rate of the profile that feedback may use (congestion.md section 3).
const FEEDBACK_SHARE: f64 = 0.1;

/// Feedback interval F in seconds (congestion.md section 3). `rate` is the data rate in byte/s, `rtt` the
/// smallest round-trip time in seconds, `reverse` the rate of the feedback's direction.
pub fn feedback_interval(rate: f64, rtt: f64, reverse: Option<BitRate>) -> f64 {
    let packet_time = FULL_PACKET / rate.max(1.0);
    let by_data = (8.0 * packet_time).min(0.65 * rtt).max(0.02).max(rtt / 50.0);
    let by_reverse = reverse.map_or(0.0, |rate| {
        FEEDBACK_SIZE / (FEEDBACK_SHARE * rate.bytes_per_second().max(1.0))
    });
    // A profile with an absurdly low reverse rate must not stop feedback.
    by_data.max(by_reverse.min(2.0))
}

/// Window in bytes and rate in byte/s that the sender uses before the first feedback and the receiver assumes
/// before the first packet (congestion.md section 2).
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

/// Factor of the initial pacing rate above the profile's rate, so that rounding does not empty the
/// bottleneck's queue.
const START_MARGIN: f64 = 1.02;
/// Initial window without a profile in packets (RFC 6928), paced over `UNKNOWN_SPREAD`.
const UNKNOWN_PACKETS: f64 = 10.0;
const UNKNOWN_SPREAD: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
