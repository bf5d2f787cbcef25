//! Shares of the bottleneck that the flows get.
use std::time::Duration;

use longhaul_netem::Side as End;
use longhaul_types::{BitRate, Timestamp};

use super::Dumbbell;

/// Measurements of the downlink in an interval.
pub(crate) struct Watched {
    /// Bytes sent, relative to the capacity.
    pub(crate) utilisation: f64,
    /// Bytes delivered for each flow.
    pub(crate) got: Vec<f64>,
    pub(crate) queue_p50: Duration,
    pub(crate) queue_p95: Duration,
    /// Packets dropped or lost, relative to those offered.
    pub(crate) lost: f64,
}

impl Watched {
    /// Jain's fairness index.
    pub(crate) fn jain(&self) -> f64 {
        let squares: f64 = self.got.iter().map(|bytes| bytes * bytes).sum();
        self.got.iter().sum::<f64>().powi(2) / (self.got.len() as f64 * squares.max(1.0))
    }

    /// The smallest share of a flow, relative to the fair share.
    pub(crate) fn least_of_fair(&self) -> f64 {
        let least = self.got.iter().copied().fold(f64::INFINITY, f64::min);
        let total: f64 = self.got.iter().sum();
        least * self.got.len() as f64 / total.max(1.0)
    }

    /// Delivered bytes of all flows, relative to a rate.
    pub(crate) fn of_rate(&self, rate: BitRate, time: Duration) -> f64 {
        self.got.iter().sum::<f64>() / (rate * time).bytes() as f64
    }
}

impl Dumbbell {
    /// Runs until `to` and returns the measurements of the downlink from `from`.
    pub(crate) fn watch(&mut self, from: Duration, to: Duration) -> Watched {
        let [from, to] = [from, to].map(|time| Timestamp::ZERO + time);
        self.run(from);
        self.hop.take_queueing_delays(End::Client);
        let delivered = self.delivered();
        let stats = self.hop.down().stats();
        let (sent, offered, dropped) = (
            stats.sent.bytes,
            stats.offered.packets,
            stats.dropped_total().packets,
        );
        self.run(to);
        self.hop.advance(to);
        let delays = self.hop.take_queueing_delays(End::Client);
        let got = self.delivered();
        let got = got
            .iter()
            .zip(&delivered)
            .map(|(after, before)| (after - before) as f64);
        let got = got.collect();
        let stats = self.hop.down().stats();
        let possible = self.hop.down().capacity_between(from, to).bytes();
        Watched {
            utilisation: (stats.sent.bytes - sent).bytes() as f64 / possible as f64,
            got,
            queue_p50: delays.percentile(50),
            queue_p95: delays.percentile(95),
            lost: (stats.dropped_total().packets - dropped) as f64
                / (stats.offered.packets - offered).max(1) as f64,
        }
    }
}
