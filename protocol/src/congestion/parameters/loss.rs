//! Constants of losses (congestion.md section 7).
use super::constants;

constants! {
    /// Classification of losses and the reaction to them (congestion.md section 7).
    loss: LossParameters, section "7";
    /// Packets after which the baseline is known.
    baseline_packets = 60.0, "packets", 30.0 => 120.0;
    /// Interval at which the counts of the baseline are halved: the baseline follows the link within half a
    /// minute.
    baseline_halving = 10.0, "s", 5.0 => 20.0;
    /// Counts in `baseline_packets` below which they are not halved, so that the baseline stays known.
    baseline_kept = 2.0, "ratio", 2.0 => 4.0;
    /// Share of the largest q up to which losses count for the baseline, and above which the buffer may be full.
    full_queue = 0.7, "largest q", 0.5 => 0.9;
    /// Factor of the largest q at each halving: a path may get another buffer.
    largest_queue_decay = 0.9, "ratio", 0.8 => 0.95;
    /// Least episodes of losses in a heavy round: fewer are chance.
    heavy_losses = 3.0, "episodes", 2.0 => 6.0;
    /// Received packets between two losses of one episode.
    episode_gap = 4.0, "packets", 2.0 => 8.0;
    /// Longest episode as a share of the packets of a round.
    episode_share = 0.25, "round", 0.125 => 0.3333;
    /// Standard deviations above the expected losses from which a round is heavy.
    heavy_deviations = 3.0, "deviations", 1.5 => 6.0;
    /// Share of the packets by which the losses must also exceed the expected ones.
    heavy_share = 0.02, "share", 0.01 => 0.04;
    /// Share of Qh below which no round is heavy while the baseline is unknown.
    unknown_queue = 0.5, "Qh", 0.25 => 1.0;
    /// Longest episode.
    episode_most = 32.0, "packets", 16.0 => 64.0;
    /// Least index of dispersion of losses in bursts; below it, losses count as independent.
    dispersion_least = 8.0, "ratio", 6.0 => 10.0;
    /// Losses that the packets behind a heavy round would have if its cause lasted, at least.
    review_losses = 5.0, "packets", 3.0 => 8.0;
    /// Rounds after a heavy one whose losses belong to the same overflow.
    known_rounds = 1.1, "T", 0.55 => 2.2;
    /// Longest such round.
    known_round_longest = 60.0, "s", 30.0 => 120.0;
    /// W after a heavy round as a share of r E.
    rate_share = 0.85, "r E", 0.7 => 1.0;
    /// Least W after a heavy round as a share of W: r may be that of a waiting sender.
    window_share = 0.5, "W", 0.25 => 0.75;
    /// Share of Qh below which losses do not come from a full buffer.
    queueless = 0.3, "Qh", 0.15 => 0.6;
    /// R after an outage whose losses are not counted.
    outage_rtts = 2.0, "R", 1.0 => 4.0;
    /// Further time after an outage whose losses are not counted.
    outage_time = 0.2, "s", 0.1 => 0.4;
}

constants! {
    /// Bounds of queue and window after losses (congestion.md sections 7, 7.1).
    loss_bound: LossBoundParameters, section "7";
    /// Loss ratio in baselines from which a full buffer is shallow.
    shallow_baselines = 2.0, "ratio", 1.0 => 4.0;
    /// Share of the packets by which the losses must also exceed these baselines.
    shallow_share = 0.02, "share", 0.01 => 0.04;
    /// Packet times that the largest queue of a shallow buffer exceeds: a queue of a few packets does not show a
    /// full buffer.
    shallow_packets = 5.0, "packets", 2.5 => 10.0;
    /// Share of Qh that the largest queue of a shallow buffer exceeds: a variable delay looks like a queue that is
    /// shorter.
    shallow_target = 0.3, "Qh", 0.15 => 0.6;
    /// Bound of Qh as a share of the largest queue.
    shallow_queue = 0.6, "largest q", 0.3 => 0.9;
    /// Rise of the bound of Qh per `rise_time`.
    queue_rise = 1.3, "ratio", 1.15 => 1.6;
    /// Rise of the bound of W per `rise_time`.
    window_rise = 1.15, "ratio", 1.07 => 1.3;
    /// Acceleration of this rise: after n intervals, the exponent of the factor is n + this share of the square of n.
    window_acceleration = 0.25, "share", 0.0 => 0.5;
    /// Time in which the bounds rise by these factors.
    rise_time = 2.0, "s", 1.0 => 4.0;
    /// Time for which a bound holds before it rises.
    firm_for = 10.0, "s", 5.0 => 20.0;
    /// Time for which a bound of W holds that no trial has confirmed.
    brief_for = 3.0, "s", 1.5 => 6.0;
    /// Least bound of W after further heavy rounds, as a share of the first bound.
    first_share = 0.5, "share", 0.25 => 0.75;
    /// Time after which a bound is discarded.
    discarded_after = 60.0, "s", 30.0 => 120.0;
    /// Loss ratio above which a heavy round without a queue bounds W as a trial does.
    loss_ratio = 0.1, "share", 0.05 => 0.2;
}

constants! {
    /// Trial of the cause of losses (congestion.md section 7.1).
    trial: TrialParameters, section "7.1";
    /// Loss ratio that is believed to be the link's own without a trial.
    believed = 0.05, "share", 0.025 => 0.1;
    /// Loss ratio that is never believed to be the link's own.
    believed_most = 1.0 / 3.0, "share", 1.0 / 6.0 => 0.5;
    /// Least packets of a trial.
    packets = 60.0, "packets", 30.0 => 120.0;
    /// Least losses that a trial would have at the baseline ratio.
    losses = 10.0, "packets", 5.0 => 20.0;
    /// Index of dispersion above which a trial does not count more losses: a trial beside a policer must end.
    dispersion_most = 8.0, "ratio", 4.0 => 16.0;
    /// Time for which the result of a trial is believed at first.
    believed_for = 30.0, "s", 15.0 => 60.0;
    /// Factor of this time at each confirmation.
    believed_factor = 2.0, "ratio", 1.0 => 4.0;
    /// Longest time for which the result of a trial is believed.
    believed_longest = 300.0, "s", 150.0 => 600.0;
    /// W of a trial as a share of the data that arrives.
    window_share = 0.9, "share", 0.8 => 0.95;
    /// Largest loss ratio by which a trial reduces W: losses at the simultaneous start of many sessions do not
    /// measure the share of one.
    loss_most = 0.875, "share", 0.75 => 0.95;
    /// Position of the threshold between the ratio of congestion and the ratio before the trial.
    threshold = 0.5, "share", 0.25 => 0.75;
}

constants! {
    /// Loss bursts, which are short outages (congestion.md section 7.2).
    burst: LossBurstParameters, section "7.2";
    /// Least missing packets of a burst: fewer are no reason for a heavy round.
    least_packets = 3.0, "packets", 2.0 => 6.0;
    /// Least silence of a burst: Wi-Fi and cells deliver packets in bunches, and a full buffer may drop all between
    /// two bunches.
    least_time = 0.01, "s", 0.005 => 0.02;
    /// Share of the transmission time of the missing packets for which nothing may have arrived: behind a full
    /// buffer, packets continue to arrive.
    silence_share = 0.5, "share", 0.25 => 0.75;
    /// Least packets before and behind a burst that must have arrived.
    side_least = 8.0, "packets", 4.0 => 16.0;
    /// Most packets before and behind a burst that are examined.
    side_most = 64.0, "packets", 32.0 => 128.0;
    /// Largest loss ratio of these packets.
    side_loss = 0.25, "share", 0.125 => 0.3333;
    /// Share of the time that bursts may take: more is the work of a policer.
    allowance_share = 0.2, "share", 0.1 => 0.3;
    /// Longest time that bursts may take at once.
    allowance_most = 2.0, "s", 1.0 => 4.0;
}
