//! Target queueing delay (congestion.md section 5).
use longhaul_types::Timestamp;

use super::Controller;

impl Controller {
    /// Qh: target queueing delay in seconds at the queueing delay `queue`.
    pub(super) fn target(&self, now: Timestamp, queue: f64) -> f64 {
        let parameters = &self.parameters.target;
        let variability = self.path.rate.variability();
        let packet_time = self.packet_time_in(self.path.control_loop() + queue);
        let by_path = self.path_target(variability).min(parameters.longest);
        let by_packets = ((parameters.packets - parameters.packets_variability * variability) * packet_time)
            .min(parameters.packets_longest)
            .max(parameters.packets_least * packet_time);
        let target = by_path
            .max(by_packets)
            .min((parameters.packets_most * packet_time).max(parameters.longest));
        match self.bounds.queue(&self.parameters.loss_bound, now) {
            Some(bound) => target.min(bound.max(parameters.packets_least * packet_time)),
            None => target,
        }
    }

    /// Target by round-trip time, variability of the rate and share of the link.
    fn path_target(&self, variability: f64) -> f64 {
        let parameters = &self.parameters.target;
        let rtt = self.path.rtt;
        let base = (parameters.rtt_share * rtt)
            .clamp(parameters.least, parameters.most)
            .max(parameters.long_rtt_share * rtt)
            + (parameters.variability_share * variability).min(parameters.variability_most);
        let packets = self.window.bytes / self.path.full_packet;
        let by_share = (parameters.share_packets / packets)
            .powf(parameters.share_exponent)
            .clamp(parameters.share_least, parameters.share_most);
        base * by_share
    }

    /// m T/W: the time of a full packet in a round of `round` seconds that carries W.
    pub(super) fn packet_time_in(&self, round: f64) -> f64 {
        self.path.full_packet * round / self.window.bytes
    }
}
