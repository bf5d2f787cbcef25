//! Results of an experiment.
use longhaul_report::Series;
use serde::{Deserialize, Serialize};

use crate::{experiment::Experiment, system::System};

/// The result of one experiment. Times in seconds, shares from 0 to 1; every figure is finite, and a figure
/// that could not be measured is omitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the link.
    pub link: String,
    /// The measured system.
    pub system: System,
    /// The experiment.
    pub experiment: Experiment,
    /// The figures; `None` if the experiment failed before there were any.
    pub outcome: Option<Outcome>,
    /// Curves.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Processor time.
    pub cpu: Option<Cpu>,
    /// 99th percentile of the delay of packet deliveries compared with the model: the emulator's own error.
    pub lateness_p99_s: f64,
    /// Errors of the run.
    #[serde(default)]
    pub errors: Vec<String>,
}

/// Processor time of the threads of client and server, from the first packet of the measurement to the last.
/// For kernel TCP it excludes the kernel's work for received packets, which runs on the emulator's thread;
/// for UDP transports it includes all of their own work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The receiver.
    pub client_s: f64,
    /// The sender.
    pub server_s: f64,
}

/// The figures of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Figures of [`Experiment::Bulk`], [`Experiment::Traced`] and [`Experiment::Reordered`].
    Bulk(Bulk),
    /// Figures of [`Experiment::Bundle`].
    Bundle(Bundle),
    /// Figures of [`Experiment::Outage`].
    Outage(OutageEnd),
    /// Figures of [`Experiment::TwoFlows`].
    TwoFlows(TwoFlows),
    /// Figures of [`Experiment::Priority`].
    Priority(Priority),
    /// Figures of [`Experiment::AddressChange`].
    AddressChange(AddressChanged),
    /// Figures of [`Experiment::UdpDies`].
    UdpDied(UdpDied),
    /// Figures of [`Experiment::UdpBlocked`].
    Opened(Opened),
    /// Figures of [`Experiment::WrongProfile`].
    WrongProfile(WrongProfile),
    /// Figures of [`Experiment::Idle`].
    Idle(Idle),
    /// Figures of [`Experiment::Cancel`].
    Cancel(Cancelled),
    /// Figures of [`Experiment::LostPacket`].
    LostPacket(LostPackets),
}

/// A download that fills the link, after its first two round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bulk {
    /// Used share of the link's capacity, including retransmissions of its own link layer.
    pub utilisation: f64,
    /// Bytes received by the application, as a share of the link's capacity.
    pub goodput: f64,
    /// Median queueing delay at the link.
    pub queue_p50_s: f64,
    /// 95th percentile of the queueing delay at the link.
    pub queue_p95_s: f64,
    /// Share of the packets that the link lost, including its queue.
    pub lost: f64,
    /// Retransmitted share of the sent data: stream bytes (longhaul), segments (kernel), packets considered
    /// lost (quinn).
    pub retransmitted: Option<f64>,
    /// Bytes towards the sender as a share of the uplink's capacity: feedback, acknowledgements.
    pub feedback: f64,
}

/// One response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// Share of the time between the response's first and last bit on the link in which the link was busy.
    pub busy: Option<f64>,
    /// Time from the request to the first byte.
    pub first_byte_s: f64,
    /// Time from the request to the last byte.
    pub last_byte_s: f64,
    /// Bytes that the link carried towards the client in this time.
    pub bytes_down: u64,
    /// Bytes that the link carried from the client in this time.
    pub bytes_up: u64,
}

/// A download with an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutageEnd {
    /// Time from the end of the outage to the first new bytes at the application.
    pub first_byte_s: Option<f64>,
    /// Rate at the application in the five seconds that begin two seconds (or three round trips) after the
    /// end of the outage, divided by the rate before the outage.
    pub regained: Option<f64>,
    /// Time from the start of the outage to its detection by the sender; only for systems that report it.
    pub detected_s: Option<f64>,
    /// Smoothed round-trip time of the sender before the outage; only for systems that report it.
    pub srtt_s: Option<f64>,
    /// Bytes that the server sent while both sides had detected the outage (for systems that do not report
    /// it: from three round trips and a second on).
    pub probes_down: u64,
    /// The same for the client.
    pub probes_up: u64,
    /// Retransmitted stream bytes, although the link lost none of them.
    pub duplicate_bytes: Option<u64>,
    /// Number of connections that ended.
    pub connections_lost: u64,
}

/// Two concurrent downloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TwoFlows {
    /// Goodput of the first flow in the last half, bit/s.
    pub first_bps: f64,
    /// Goodput of the second flow in the last half, bit/s.
    pub second_bps: f64,
    /// Jain's index of both.
    pub jain: f64,
    /// Share of the first flow.
    pub first_share: f64,
    /// The smaller share in the five seconds that begin 20 s after the start of the second flow.
    pub least_share_after_joining: Option<f64>,
    /// 95th percentile of the queueing delay in the last half.
    pub queue_p95_s: f64,
    /// Used share of the link's capacity in the last half.
    pub utilisation: f64,
}

/// Messages of 2 kB during a download.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    /// Median time of a message on the idle link.
    pub alone_s: f64,
    /// Median time during the download.
    pub p50_s: f64,
    /// 95th percentile (nearest rank) during the download.
    pub p95_s: f64,
    /// Number of these messages.
    pub messages: u32,
    /// Used share of the link's capacity during the messages.
    pub utilisation: f64,
}

/// A download during which the client's address changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddressChanged {
    /// Longest time without new bytes at the application that began within five seconds of the change; `None`
    /// if no bytes came afterwards.
    pub pause_s: Option<f64>,
    /// Rate in the five seconds from two seconds (or three round trips) after the change, divided by the rate
    /// in the five seconds before.
    pub regained: Option<f64>,
    /// Number of connections that ended.
    pub connections_lost: u64,
}

/// A download during which the network began to drop UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpDied {
    /// Time from the last datagram to the first new bytes over TLS; `None` if none came.
    pub pause_s: Option<f64>,
    /// The download over TLS, from five seconds after these bytes on.
    pub over_tls: Bulk,
    /// Retransmitted stream bytes until then.
    pub duplicate_bytes: Option<u64>,
    /// Number of connections that ended.
    pub connections_lost: u64,
}

/// A session that was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Time until it was open.
    pub open_s: f64,
}

/// A download by a client with wrong link rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WrongProfile {
    /// Time from the request until excess data of the start can have left the queue: three round trips, and
    /// the time for the smaller of ten bandwidth-delay products and the queue.
    pub settled_s: f64,
    /// 95th percentile of the queueing delay over time in the half minute after `settled_s`.
    pub queue_p95_s: f64,
    /// Share of packets lost after five round trips.
    pub lost: f64,
    /// Time from the request to the first round trip (at least half a second, and four packet times) in which
    /// nine tenths of the capacity were used; `None` if there was none.
    pub reached_s: Option<f64>,
}

/// An idle session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Packets from the client.
    pub packets_up: u64,
    /// Packets to the client.
    pub packets_down: u64,
    /// Time of a message of 2 kB afterwards; `None` if the connection had ended.
    pub message_s: Option<f64>,
}

/// Medians of cancelled downloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cancelled {
    /// Time from the cancellation to the server's last data on the link.
    pub stopped_s: f64,
    /// Bytes that the server sent to the link in that time.
    pub wasted_bytes: u64,
}

/// Messages that lost a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LostPackets {
    /// Median time of a message without loss.
    pub alone_s: f64,
    /// Median of the additional time of a message that lost a packet, compared with the message before it.
    pub extra_p50_s: f64,
    /// 95th percentile (nearest rank) of the same.
    pub extra_p95_s: f64,
    /// Number of messages that lost a packet.
    pub messages: u32,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_report::SeriesPoint;

    use super::*;

    #[test]
    fn results_survive_a_round_trip_through_json() -> Result<(), serde_json::Error> {
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
            Outcome::UdpDied(UdpDied::default()),
            Outcome::Opened(Opened::default()),
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
