//! Constants of the measurements: round-trip time, feedback, rate, queueing delay (congestion.md sections 1, 3
//! to 5).
use super::constants;

constants! {
    /// Bounds of the path's quantities (congestion.md section 1).
    path: PathParameters, section "1";
    /// Least R. Smaller round-trip times are below the precision of the drivers' timers (1 ms).
    least_rtt = 0.001, "s", 0.000_5 => 0.002;
    /// Longest R: a profile or a measurement with more describes no usable link.
    longest_rtt = 10.0, "s", 5.0 => 20.0;
    /// Longest s: below 640 byte/s the capacity is an artefact of a pause, not a link's rate.
    longest_packet_time = 2.0, "s", 1.0 => 4.0;
}

constants! {
    /// Feedback interval F (congestion.md section 3).
    feedback: FeedbackParameters, section "3";
    /// Packet times at rmax between two feedbacks. Smaller values cost uplink, larger ones let the window stand
    /// still between feedbacks.
    data_packets = 8.0, "packets", 4.0 => 16.0;
    /// Longest F as a share of R, so that each round contains feedback.
    rtt_share = 0.65, "R", 0.325 => 1.0;
    /// Least F: more frequent feedback says nothing new.
    least = 0.02, "s", 0.01 => 0.04;
    /// Maximum number of feedbacks in R.
    most_in_rtt = 50.0, "count", 25.0 => 100.0;
    /// Share of the reverse rate of the profile that feedback may use.
    reverse_share = 0.1, "share", 0.05 => 0.2;
    /// Longest F that the reverse rate causes: a profile with an absurdly low reverse rate must not stop feedback.
    reverse_longest = 2.0, "s", 1.0 => 4.0;
}

constants! {
    /// Measurement of late feedback u (congestion.md section 3.1).
    late_feedback: LateFeedbackParameters, section "3.1";
    /// Maximum of u; longer delays come from outages, not from uploads.
    longest = 20.0, "s", 10.0 => 40.0;
    /// Least window of the samples. The smallest sample in the window counts, because a lost feedback and radio
    /// pauses of one or two seconds make samples too large.
    window = 3.0, "s", 1.5 => 6.0;
    /// Window of the samples as a share of the loop, for loops in which a sample is rarer than the least window.
    window_share = 0.3, "loop", 0.15 => 0.6;
    /// Share of the smallest loop by which a longer loop is not attributed to an upload.
    tolerance = 1.0 / 3.0, "loop", 1.0 / 6.0 => 2.0 / 3.0;
    /// Maximum number of missing packet numbers that count as full packets.
    skipped_most = 1000.0, "packets", 500.0 => 2000.0;
    /// Remainder as a share of R below which a clock has jumped: no packet is faster than half the round trip.
    clock_jump = 0.5, "R", 0.25 => 0.75;
    /// Window of the lasting base: longer than any queue stands, short enough that clocks drift little.
    lasting_window = 600.0, "s", 300.0 => 1200.0;
    /// Share of E above which u prevents the ramp: r then says little about W.
    ramp_share = 0.1, "E", 0.05 => 0.2;
}

constants! {
    /// Measurement of the delivery rate (congestion.md section 4).
    rate: RateParameters, section "4";
    /// Least interval of r: shorter ones measure the bursts of the pacer.
    interval_least = 0.07, "s", 0.035 => 0.14;
    /// Least number of full packets at rmax in the interval of r.
    interval_packets = 4.0, "packets", 2.0 => 8.0;
    /// Longest interval of r.
    interval_longest = 10.0, "s", 5.0 => 20.0;
    /// Arrivals from which r is measured within the first interval.
    early_arrivals = 4.0, "packets", 2.0 => 8.0;
    /// Time of a busy period from which r is measured within the first interval: less is one burst.
    early_time = 0.03, "s", 0.015 => 0.06;
    /// Window of rmax in R: four rounds, so that a round without data does not lower rmax.
    memory_rtts = 4.0, "R", 2.0 => 8.0;
    /// Least window of rmax: more than the pauses of mobile networks of one second.
    memory_least = 1.05, "s", 0.525 => 2.1;
    /// Extension of the window of rmax in u: a sender that waits for late feedback reaches the link's rate only
    /// once per loop.
    memory_late = 2.0, "u", 1.0 => 4.0;
    /// Number of samples of the variability.
    samples = 40.0, "samples", 20.0 => 80.0;
    /// Number of samples from which the variability is known.
    samples_least = 4.0, "samples", 2.0 => 8.0;
    /// Least interval of the samples, so that successive samples share little data.
    sample_interval = 0.1, "s", 0.05 => 0.2;
    /// Queueing delay above which r is the link's rate and not the sender's.
    sample_queue = 0.01, "s", 0.005 => 0.02;
}

constants! {
    /// Measurement of the queueing delay (congestion.md section 5).
    queue: QueueParameters, section "5";
    /// Least window of the base. A longer window keeps the base through standing queues, a shorter one forgets
    /// clock drift and routes that have changed.
    base_window = 30.0, "s", 15.0 => 60.0;
    /// Window of the base in R.
    base_window_rtts = 60.0, "R", 30.0 => 120.0;
    /// Fraction of R whose smallest delay is q: 1/4 follows the queue within a round and ignores jitter.
    recent_in_rtt = 4.0, "count", 2.0 => 8.0;
    /// Least time whose smallest delay is q.
    recent_least = 0.01, "s", 0.005 => 0.02;
    /// Time in R whose smallest delay is q over an ordered path: TCP keeps the last packets of each round waiting until
    /// acknowledgements open its window, and the next round begins with them.
    recent_ordered_rtts = 1.25, "R", 1.0 => 2.0;
    /// Change of the byte time below which kept delays are not recomputed: it moves q by less than half a packet
    /// time, a fifth of the least Qh.
    restate_factor = 1.5, "ratio", 1.25 => 3.0;
}
