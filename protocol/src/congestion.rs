//! Congestion control: the receiver measures and grants, the sender paces (transport.md section 6,
//! congestion.md).
//!
//! Inside this module times are seconds, sizes are bytes and rates are byte/s, all as `f64`, because
//! congestion.md defines the algorithm in these units. The functions for the rest of the connection take and
//! return [`Duration`], [`ByteCount`], [`BitRate`] and [`ByteRate`]. Every constant of the algorithm is in
//! [`CongestionParameters`].
mod byte_rate;
mod controller;
mod delay;
mod loop_delay;
mod loss;
mod loss_burst;
mod loss_count;
mod max_filter;
mod pacer;
mod parameters;
mod rate;
mod start;
mod trial;

pub use byte_rate::ByteRate;
pub use controller::{Controller, Estimated, Grant, PacketSample, WindowPolicy};
pub use max_filter::MaxFilter;
pub use pacer::Pacer;
pub use parameters::{
    CongestionParameters, Constant, CutParameters, FeedbackParameters, GrowthParameters,
    LateFeedbackParameters, LossBoundParameters, LossBurstParameters, LossParameters, PacingParameters,
    PathParameters, ProbingParameters, QueueParameters, RampParameters, RateParameters, SilenceParameters,
    StartParameters, TargetParameters, TrialParameters, UpdateParameters,
};
pub use start::{FirstFlight, Start};

use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, LinkProfile};

use self::byte_rate::{LEAST_RATE, as_bytes, as_count};

/// Size of a full packet with IP and UDP headers: the least value of m in congestion.md.
pub const FULL_PACKET: ByteCount = ByteCount::new(1280);
/// The same in bytes.
const FULL_PACKET_BYTES: f64 = as_bytes(FULL_PACKET);
/// Size of a feedback packet with IP and UDP headers in bytes, including one or two gaps.
const FEEDBACK_BYTES: f64 = 76.0;

/// Feedback interval F (congestion.md section 3). `rate` is the rate of the data, `rtt` the smallest round-trip
/// time, `reverse` the rate of the feedback's direction.
pub fn feedback_interval(
    parameters: &FeedbackParameters,
    rate: ByteRate,
    rtt: Duration,
    reverse: Option<BitRate>,
) -> Duration {
    let interval = feedback_seconds(parameters, rate.bytes_per_second(), rtt.as_secs_f64(), reverse);
    Duration::from_secs_f64(interval)
}

fn feedback_seconds(parameters: &FeedbackParameters, rate: f64, rtt: f64, reverse: Option<BitRate>) -> f64 {
    let packet_time = FULL_PACKET_BYTES / rate.max(LEAST_RATE);
    let by_data = (parameters.data_packets * packet_time)
        .min(parameters.rtt_share * rtt)
        .max(parameters.least)
        .max(rtt / parameters.most_in_rtt);
    let by_reverse = reverse.map_or(0.0, |rate| {
        FEEDBACK_BYTES / (parameters.reverse_share * rate.bytes_per_second().max(LEAST_RATE))
    });
    by_data.max(by_reverse.min(parameters.reverse_longest))
}

/// Window and rate that the sender uses before the first feedback and that the receiver assumes before the
/// first packet (congestion.md section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitialGrant {
    /// W in bytes.
    window: f64,
    /// Pacing rate.
    pub rate: ByteRate,
}

impl InitialGrant {
    /// Computes the initial grant; `rate` is the profile's rate of the data, `reverse` that of the feedback.
    pub fn new(
        parameters: &CongestionParameters,
        rate: Option<BitRate>,
        profile: Option<&LinkProfile>,
        reverse: Option<BitRate>,
    ) -> Self {
        let start = &parameters.start;
        match (rate, profile) {
            (Some(rate), Some(profile)) if rate.as_bps() > 0 => {
                let rate = rate.bytes_per_second();
                let rtt = profile.rtt.as_secs_f64().min(parameters.path.longest_rtt);
                let interval = feedback_seconds(&parameters.feedback, rate, rtt, reverse);
                let loop_time = rtt + interval + FULL_PACKET_BYTES / rate;
                Self {
                    window: rate * loop_time + start.standing_packets * FULL_PACKET_BYTES,
                    rate: ByteRate::new(rate * start.profile_margin),
                }
            }
            _ => Self {
                window: start.unknown_packets * FULL_PACKET_BYTES,
                rate: ByteRate::new(start.unknown_packets * FULL_PACKET_BYTES / start.unknown_spread),
            },
        }
    }

    /// W.
    pub const fn credit(&self) -> ByteCount {
        as_count(self.window)
    }
}

#[cfg(test)]
mod tests;
