//! Constants of the window and of the grants (congestion.md sections 2, 5, 6, 8, 9).
use super::constants;

constants! {
    /// Start of a session (congestion.md section 2).
    start: StartParameters, section "2";
    /// Factor of the initial pacing rate above the profile's rate, so that rounding does not empty the
    /// bottleneck's queue.
    profile_margin = 1.02, "ratio", 1.0 => 1.1;
    /// Standing queue of the initial window with a profile: with the pacer's burst, two packets keep the
    /// bottleneck busy.
    standing_packets = 2.0, "packets", 1.0 => 4.0;
    /// Initial window without a profile (RFC 6928).
    unknown_packets = 10.0, "packets", 5.0 => 20.0;
    /// Time over which this window is paced: a burst of ten packets would fill the buffer of a slow link.
    unknown_spread = 0.3, "s", 0.15 => 0.6;
    /// R before the first packet without a profile: a mobile link.
    unknown_rtt = 0.3, "s", 0.15 => 0.6;
    /// Share of Qh at which slow start ends: the doubling of one more round fills the rest.
    end_queue = 0.5, "Qh", 0.25 => 1.0;
    /// Share of Qh that W keeps at the end of slow start, as a cut does.
    kept_queue = 0.33, "Qh", 0.165 => 0.66;
}

constants! {
    /// Target queueing delay Qh (congestion.md section 5).
    target: TargetParameters, section "5";
    /// Qh as a share of R on short paths.
    rtt_share = 0.8, "R", 0.4 => 1.6;
    /// Least Qh before the other terms: programs on busy machines are late by as much.
    least = 0.01, "s", 0.005 => 0.02;
    /// Qh on paths where the share of R exceeds it: below what users notice in interactive traffic.
    most = 0.06, "s", 0.03 => 0.12;
    /// Qh as a share of R on long paths: a cut takes effect after R, and the queue must last until then.
    long_rtt_share = 0.25, "R", 0.125 => 0.5;
    /// Additional Qh for a variable rate, per cv.
    variability_share = 0.2, "s", 0.1 => 0.4;
    /// Maximum of this addition.
    variability_most = 0.08, "s", 0.04 => 0.16;
    /// Packets in W at which the number of packets does not change Qh. Sessions with a smaller W get a longer
    /// target, which makes the shares of several sessions converge.
    share_packets = 100.0, "packets", 50.0 => 200.0;
    /// Exponent of this effect.
    share_exponent = 0.17, "exponent", 0.085 => 0.34;
    /// Least factor of this effect.
    share_least = 0.6, "ratio", 0.3 => 0.9;
    /// Largest factor of this effect.
    share_most = 2.0, "ratio", 1.0 => 4.0;
    /// Longest Qh, unless a few packets take longer.
    longest = 0.6, "s", 0.3 => 1.2;
    /// Full packets in the queue at which Qh aims on a link with a steady rate.
    packets = 5.0, "packets", 2.5 => 10.0;
    /// Reduction of these packets per cv: the rate of a variable link is often higher than its packet time says.
    packets_variability = 6.0, "packets", 3.0 => 12.0;
    /// Longest Qh for these packets: on slower links five packets would delay urgent data.
    packets_longest = 0.7, "s", 0.35 => 1.4;
    /// Least Qh in packets: with two packets in the queue, the arrival of one does not empty it.
    packets_least = 2.5, "packets", 1.25 => 5.0;
    /// Longest Qh in packets where that is more than `longest`.
    packets_most = 8.0, "packets", 4.0 => 16.0;
}

constants! {
    /// Updates and floor of W (congestion.md section 6).
    update: UpdateParameters, section "6";
    /// Updates in R: the window follows the queue within a round.
    most_in_rtt = 8.0, "count", 4.0 => 16.0;
    /// Least time between updates.
    interval_least = 0.01, "s", 0.005 => 0.02;
    /// Longest dt in such intervals: a pause must not become one large step.
    longest_intervals = 2.0, "intervals", 1.0 => 4.0;
    /// Longest dt in packet times, for links on which a packet takes longer than an interval.
    longest_packets = 4.0, "packets", 2.0 => 8.0;
    /// Least W: with one packet, each feedback would wait for the next packet.
    least_packets = 2.0, "packets", 1.0 => 4.0;
    /// Queue in Qh from which W may fall below rmax E: rmax then is too high.
    floor_queue = 1.8, "Qh", 1.0 => 3.6;
    /// Rounds after heavy losses in which W may fall below rmax E.
    floor_loss_rounds = 3.0, "T", 1.5 => 6.0;
}

constants! {
    /// Cuts of W (congestion.md section 6).
    cut: CutParameters, section "6";
    /// Queue in qcut from which a further cut does not wait for `hold`: the queue grows in spite of the last
    /// cut.
    again_queue = 1.8, "qcut", 1.3 => 3.6;
    /// Time in R after the last cut before such a cut.
    again_rtts = 0.5, "R", 0.25 => 1.0;
    /// Share of Qh that a cut leaves: the queue does not run empty before W grows again.
    kept_queue = 0.33, "Qh", 0.165 => 0.66;
    /// Largest share of Qh that a cut leaves on a variable link.
    kept_queue_most = 0.8, "Qh", 0.4 => 1.0;
    /// Factor below the computed window, so that a cut has an effect in spite of errors of measurement.
    factor = 0.97, "ratio", 0.94 => 0.99;
    /// Queueing delays that a cut takes to show an effect, besides E.
    hold_queues = 1.1, "q", 0.55 => 2.2;
    /// A cut did not reduce the queue if the queue stayed above this share of Qh ...
    unreduced_target = 0.6, "Qh", 0.3 => 0.9;
    /// ... and above this share of qcut.
    unreduced_cut = 0.4, "qcut", 0.2 => 0.8;
    /// Share of Qh below which a series of cuts ends.
    series_end = 0.25, "Qh", 0.125 => 0.5;
    /// Cuts of a series after which W has a least value: other senders keep the queue, not this one.
    series_cuts = 2.0, "cuts", 1.0 => 4.0;
    /// This value as a share of W at the first cut of the series.
    series_least = 0.5, "W", 0.25 => 0.75;
    /// Longest time until `drained`: a low rmax must not stop updates for minutes.
    drain_longest = 60.0, "s", 30.0 => 120.0;
}

constants! {
    /// Growth of W (congestion.md section 6).
    growth: GrowthParameters, section "6";
    /// Growth in a round, in units of m sqrt(W/m).
    packets = 0.5, "packets", 0.25 => 1.0;
    /// Additional growth per cv: the capacity of a variable link returns quickly.
    variability = 4.0, "ratio", 2.0 => 8.0;
    /// Packets in W below which W grows more slowly as the queue nears its target.
    few_packets = 32.0, "packets", 16.0 => 64.0;
    /// Slope of this slowing over the free share of Qh.
    near_target_slope = 2.0, "ratio", 1.0 => 4.0;
    /// Least factor of this slowing.
    near_target_least = 0.2, "ratio", 0.1 => 0.4;
    /// Bound of W in loops at rmax: a sender that does not use W must not collect it.
    bound_loops = 2.0, "E + Qh", 1.5 => 4.0;
    /// Packets by which this bound is larger, for the start.
    bound_packets = 4.0, "packets", 2.0 => 8.0;
}

constants! {
    /// Ramp: fast growth of W (congestion.md section 6).
    ramp: RampParameters, section "6";
    /// Queue in Qh below which the link is not full.
    queue_share = 0.3, "Qh", 0.15 => 0.6;
    /// Queue in packet times below which the link is not full: below one packet q is noise.
    queue_packets = 2.0, "packets", 1.0 => 4.0;
    /// Queue below which the link is not full, on fast links: the jitter of drivers.
    queue_least = 0.004, "s", 0.002 => 0.008;
    /// Queue in R below which the link is not full, on long paths.
    queue_rtt_share = 0.05, "R", 0.025 => 0.1;
    /// Time in R with such a queue before the ramp: shorter pauses of the queue follow each cut.
    after_rtts = 5.0, "R", 2.5 => 10.0;
    /// Growth in a round at the start of the ramp, which increases by the same value per further R.
    gain = 0.35, "W", 0.175 => 0.7;
    /// Maximum of this growth: W doubles, as in slow start.
    most = 1.0, "W", 0.5 => 2.0;
    /// Share of the relative growth of W by which r must have risen before the ramp goes on.
    response = 0.3, "ratio", 0.15 => 0.6;
    /// Time without a ramp after heavy losses: the first session to ramp would take all of a crowded link.
    loss_pause = 10.0, "s", 5.0 => 20.0;
    /// This time in R.
    loss_pause_rtts = 20.0, "R", 10.0 => 40.0;
}

constants! {
    /// Stalls and idle times (congestion.md section 8).
    silence: SilenceParameters, section "8";
    /// Rounds R + q of silence of a backlogged sender that are a stall.
    stall_rounds = 3.0, "R + q", 1.5 => 6.0;
    /// Least silence that is a stall: pauses of a radio are shorter.
    stall_least = 1.0, "s", 0.5 => 2.0;
    /// Least W after a stall.
    stall_packets = 4.0, "packets", 2.0 => 8.0;
    /// Queueing delay from which an outage held a packet back.
    held_least = 0.5, "s", 0.25 => 1.0;
    /// Delay beyond the time since the resume from which a packet was sent before the stall.
    resume_slack = 0.01, "s", 0.005 => 0.02;
    /// R of silence of a sender without data that are an idle time.
    idle_rtts = 4.0, "R", 2.0 => 8.0;
    /// Least silence that is an idle time.
    idle_least = 0.5, "s", 0.25 => 1.0;
    /// Reduction of W after an idle time per cv: the rate of a variable link is outdated.
    idle_variability = 2.0, "ratio", 1.0 => 4.0;
    /// Least share of C E that W keeps after an idle time.
    idle_least_share = 0.7, "C E", 0.35 => 1.0;
    /// Standing queue of W after an idle time, as at the start.
    idle_standing_packets = 2.0, "packets", 1.0 => 4.0;
    /// Least W after an idle time: the initial window without a profile.
    idle_packets = 10.0, "packets", 5.0 => 20.0;
}

constants! {
    /// Grants and the pacer (congestion.md section 9).
    pacing: PacingParameters, section "9";
    /// Factor of the pacing rate above W/(E + Qh/2), so that the window and not the pacer limits a bulk
    /// transfer.
    gain = 1.25, "ratio", 1.1 => 2.0;
    /// Share of Qh in the loop over which W is paced: the mean queue.
    queue_share = 0.5, "Qh", 0.25 => 1.0;
    /// Least pacing rate, as a share of C.
    capacity_margin = 1.05, "C", 1.0 => 1.2;
    /// Depth of the token bucket in time: timers have a granularity of 1 ms.
    burst = 0.002, "s", 0.001 => 0.004;
    /// Least depth of the token bucket: a packet and the next one behind it.
    burst_packets_least = 2.0, "packets", 1.0 => 4.0;
    /// Largest depth of the token bucket below `fast_rate`.
    burst_packets_most = 10.0, "packets", 5.0 => 20.0;
    /// Rate (50 Mbit/s) from which 10 packets take less than the depth in time.
    fast_rate = 6_250_000.0, "byte/s", 3_125_000.0 => 12_500_000.0;
}
