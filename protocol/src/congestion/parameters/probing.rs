//! Constants of the start on an unknown link (congestion.md section 2.1).
use super::constants;

constants! {
    /// Measurement of an unknown link before its first transfer (congestion.md section 2.1).
    probing: ProbingParameters, section "2.1";
    /// Shortest dispersion that counts. Wi-Fi aggregates packets and drivers read several at once, so that packets
    /// of a slower link arrive without a gap.
    least_dispersion = 0.005, "s", 0.002 => 0.01;
    /// Share of the rate of a pair that counts as capacity: one gap has the error of a whole jitter.
    pair_share = 0.8, "share", 0.6 => 1.0;
    /// Share of the rate of a longer run that counts as capacity.
    train_share = 0.9, "share", 0.7 => 1.0;
    /// Time that a train may occupy the link at the rate of the pair.
    train_time = 0.16, "s", 0.08 => 0.32;
    /// Maximum number of packets of a train: 41 kB.
    train_most = 32.0, "packets", 16.0 => 32.0;
    /// Least number of packets for which a train is requested: two say no more than the pair.
    train_least = 3.0, "packets", 2.0 => 6.0;
    /// Number of packets from which a run of packets counts; shorter ones come from the pacer's bursts.
    run_packets = 4.0, "packets", 3.0 => 8.0;
    /// Time within which the packets of a run were sent: a busy gateway needs some milliseconds.
    run_spread = 0.005, "s", 0.002 => 0.01;
    /// Time at the rate of the uplink whose bytes are the first flight: access links are hardly ever slower towards
    /// the agent.
    flight_time = 0.5, "s", 0.25 => 1.0;
    /// Maximum number of packets of the burst of the first flight.
    flight_most = 80.0, "packets", 40.0 => 160.0;
    /// Time for which the gateway goes on behind this burst, until the agent reports data: the round-trip time of most
    /// satellites.
    paced_time = 0.6, "s", 0.3 => 1.2;
    /// Rate of what it sends in this time, in rates of the uplink: access links are faster towards the agent, and the
    /// shortest dispersion makes the uplink too slow.
    paced_gain = 2.0, "factor", 1.0 => 4.0;
    /// Share of the packets of a train from which it verifies a told rate: some of them are lost.
    verified_share = 0.75, "share", 0.5 => 1.0;
    /// Factor between measured and told rate, in either direction, that refutes a told rate.
    refuted_factor = 2.0, "factor", 1.5 => 3.0;
    /// Factor to a told rate that the length of a train assumes at most, if only two packets of data contradict the
    /// rate: they may have waited for each other.
    doubted_factor = 4.0, "factor", 2.0 => 8.0;
    /// Queue in Qh that refutes the estimate.
    retreat_queue = 2.0, "Qh", 1.0 => 4.0;
    /// Loss ratio that refutes the estimate.
    retreat_loss = 0.1, "share", 0.05 => 0.2;
    /// Time in R after the loop of the first data in which the estimate can be refuted.
    retreat_rtts = 2.0, "R", 1.0 => 4.0;
}
