//! What an experiment found.
use longhaul_report::Series;
use serde::{Deserialize, Serialize};

use crate::{experiment::Experiment, system::System};

/// The result of one experiment. Times in seconds, shares from 0 to 1; every figure is finite, and one that could not be measured is
/// left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the link.
    pub link: String,
    /// What was measured.
    pub system: System,
    /// How.
    pub experiment: Experiment,
    /// The figures; none if the experiment broke off before there were any.
    pub outcome: Option<Outcome>,
    /// Curves.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Processor time.
    pub cpu: Option<Cpu>,
    /// 99th percentile of how much later than the model says packets were delivered: the emulator's own error.
    pub lateness_p99_s: f64,
    /// What went wrong.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// Processor time of the threads that ran the two halves, from the first packet of the measurement to the last. For kernel TCP it lacks
/// what the kernel does when a packet arrives, which happens on the emulator's thread; for UDP transports it has all that they do
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The receiving half.
    pub client_s: f64,
    /// The sending half.
    pub server_s: f64,
}

/// The figures of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Of [`Experiment::Bulk`], [`Experiment::Traced`] and [`Experiment::Reordered`].
    Bulk(Bulk),
    /// Of [`Experiment::Bundle`].
    Bundle(Bundle),
    /// Of [`Experiment::Outage`].
    Outage(OutageEnd),
    /// Of [`Experiment::TwoFlows`].
    TwoFlows(TwoFlows),
    /// Of [`Experiment::Priority`].
    Priority(Priority),
    /// Of [`Experiment::AddressChange`].
    AddressChange(AddressChanged),
    /// Of [`Experiment::WrongProfile`].
    WrongProfile(WrongProfile),
    /// Of [`Experiment::Idle`].
    Idle(Idle),
    /// Of [`Experiment::Cancel`].
    Cancel(Cancelled),
    /// Of [`Experiment::LostPacket`].
    LostPacket(LostPackets),
}

/// A download that fills the link, behind its first two round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    /// Share of the link's capacity that was used, repairs of its own link layer included.
    pub utilisation: f64,
    /// Bytes that the application got, as a share of the link's capacity.
    pub goodput: f64,
    /// Median queueing delay at the link.
    pub queue_p50_s: f64,
    /// 95th percentile of it.
    pub queue_p95_s: f64,
    /// Share of the packets that the link lost, its queue included.
    pub lost: f64,
    /// Share of what was sent that had been sent before: stream bytes (longhaul), segments (kernel), packets taken for lost (quinn).
    pub retransmitted: Option<f64>,
    /// Bytes towards the sender as a share of the uplink's capacity: feedback, acknowledgements.
    pub feedback: f64,
}

/// One response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// Share of the time between the response's first and last bit on the link in which the link was busy.
    pub busy: Option<f64>,
    /// From asking to the first byte.
    pub first_byte_s: f64,
    /// From asking to the last byte.
    pub last_byte_s: f64,
    /// Bytes that the link carried towards the client meanwhile.
    pub bytes_down: u64,
    /// Bytes that it carried from the client meanwhile.
    pub bytes_up: u64,
}

/// A download over an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutageEnd {
    /// From the link's return to the first new bytes that the application got.
    pub first_byte_s: Option<f64>,
    /// Rate that the application got in the five seconds that begin two seconds (or three round trips) after the return, over that before.
    pub regained: Option<f64>,
    /// From the beginning to when the sending side knew; only systems that tell.
    pub detected_s: Option<f64>,
    /// Smoothed round-trip time of the sender before the outage; only systems that tell.
    pub srtt_s: Option<f64>,
    /// Bytes that the server sent while both sides knew of the outage (or, where systems do not tell, from three round trips and a second on).
    pub probes_down: u64,
    /// The same of the client.
    pub probes_up: u64,
    /// Stream bytes that were sent again although the link lost none of them.
    pub duplicate_bytes: Option<u64>,
    /// Connections that did not survive.
    pub connections_lost: u64,
}

/// Two downloads at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TwoFlows {
    /// Goodput of the first flow in the last half, bit/s.
    pub first_bps: f64,
    /// Goodput of the second, bit/s.
    pub second_bps: f64,
    /// Jain's index of both.
    pub jain: f64,
    /// Share of the first flow.
    pub first_share: f64,
    /// The lesser share in the five seconds that begin 20 s after the second flow joined.
    pub least_share_after_joining: Option<f64>,
    /// 95th percentile of the queueing delay in the last half.
    pub queue_p95_s: f64,
    /// Share of the link's capacity that was used in the last half.
    pub utilisation: f64,
}

/// Messages of 2 kB beside a download.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    /// Median time of a message on the idle link.
    pub alone_s: f64,
    /// Median time beside the download.
    pub p50_s: f64,
    /// 95th percentile (nearest rank) beside the download.
    pub p95_s: f64,
    /// Messages that this is of.
    pub messages: u32,
    /// Share of the link's capacity that was used meanwhile.
    pub utilisation: f64,
}

/// A download during which the client's address changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddressChanged {
    /// The longest time without new bytes for the application that began within five seconds of the change; none if nothing came again.
    pub pause_s: Option<f64>,
    /// Rate in the five seconds from two seconds (or three round trips) after the change, over that in the five seconds before.
    pub regained: Option<f64>,
    /// Connections that did not survive.
    pub connections_lost: u64,
}

/// A download by a client that was told wrong rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WrongProfile {
    /// From the request to when what was sent too early can have left: three round trips, and the time that the lesser of ten
    /// bandwidth-delay products and the queue takes.
    pub settled_s: f64,
    /// 95th percentile of the queueing delay from then on, over time, half a minute.
    pub queue_p95_s: f64,
    /// Share of packets lost from five round trips on.
    pub lost: f64,
    /// From the request to the first round trip (at least half a second, and four packet times) in which nine tenths of the capacity were
    /// used; none if there was none.
    pub reached_s: Option<f64>,
}

/// A session that nobody used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Packets from the client.
    pub packets_up: u64,
    /// Packets to the client.
    pub packets_down: u64,
    /// Time that a message of 2 kB took afterwards; none if the connection was dead.
    pub message_s: Option<f64>,
}

/// Downloads that were given up, medians.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cancelled {
    /// From giving up to the last data that the server handed to the link.
    pub stopped_s: f64,
    /// Bytes that it handed to the link in that time.
    pub wasted_bytes: u64,
}

/// Messages of which a packet was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostPackets {
    /// Median time of a message of which none was.
    pub alone_s: f64,
    /// How much longer than the message before it one took of which a packet was lost, median.
    pub extra_p50_s: f64,
    /// The same, 95th percentile (nearest rank).
    pub extra_p95_s: f64,
    /// Messages that lost a packet.
    pub messages: u32,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_report::SeriesPoint;

    use super::*;

    #[test]
    fn results_cross_a_pipe_as_json() -> Result<(), serde_json::Error> {
        let outcomes = [
            Outcome::Bulk(Bulk {
                utilisation: 0.5,
                retransmitted: Some(0.25),
                ..Bulk::default()
            }),
            Outcome::Bundle(Bundle::default()),
            Outcome::Outage(OutageEnd::default()),
            Outcome::TwoFlows(TwoFlows::default()),
            Outcome::Priority(Priority::default()),
            Outcome::AddressChange(AddressChanged::default()),
            Outcome::WrongProfile(WrongProfile::default()),
            Outcome::Idle(Idle::default()),
            Outcome::Cancel(Cancelled::default()),
            Outcome::LostPacket(LostPackets::default()),
        ];
        for outcome in outcomes {
            let measured = Measured {
                link: "umts-384".to_owned(),
                system: System::Longhaul,
                experiment: Experiment::Outage {
                    length: Duration::from_secs(5),
                },
                outcome: Some(outcome),
                series: vec![Series {
                    what: "goodput, bit/s".to_owned(),
                    link: "umts-384".to_owned(),
                    system: "longhaul".to_owned(),
                    points: vec![SeriesPoint { at: 0.5, value: 1.0 }],
                }],
                cpu: Some(Cpu {
                    client_s: 0.25,
                    server_s: 0.5,
                }),
                lateness_p99_s: 0.0,
                errors: vec!["two\nlines".to_owned()],
            };
            let line = serde_json::to_string(&measured)?;
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Measured>(&line)?, measured);
        }
        Ok(())
    }
}
