//! Experiments on a link.
use std::{fmt, time::Duration};

use longhaul_netem::{
    AddressChanges, Capacity, HopConfig, LinkDefinition, Loss, Outage, OutageSchedule, Probability,
    Reordering, WhileOut,
};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{system::System, udp_blocked::KnownNetwork};

/// Time of a scripted outage or address change since the world's start: every system has a connection and has
/// filled the link by then.
pub(crate) const DISTURBED_AT: Timestamp = Timestamp::from_nanos(20_000_000_000);
/// Smallest buffer that an experiment sets: four Ethernet packets.
const MIN_BUFFER: ByteCount = ByteCount::new(6000);
/// A queue that no sender fills: the kernel's largest receive window is a hundredth of it.
const ENDLESS_BUFFER: ByteCount = ByteCount::new(1 << 30);
/// Length of an Ethernet packet.
const FULL_PACKET: ByteCount = ByteCount::new(1500);
/// Additional delay of a packet that is overtaken, or two packet times if these are longer.
const REORDERED_BY: Duration = Duration::from_millis(20);

/// An experiment. Each one needs a new world, whose hop is [`Experiment::hop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// A download that fills the link.
    Bulk {
        /// Observed time after the first two round trips.
        length: Duration,
        /// Packets per thousand that the link loses in each direction, in addition to the loss of its
        /// profile.
        loss_per_mille: u16,
    },
    /// One response of known size.
    Bundle {
        /// Its size.
        bytes: u64,
        /// State of the session before.
        session: SessionBefore,
    },
    /// A download during which the link holds all packets for a time.
    Outage {
        /// Length of the outage.
        length: Duration,
    },
    /// Two concurrent downloads; the second one starts later.
    TwoFlows {
        /// System of the second download.
        rival: Rival,
        /// The link's queue towards the client.
        buffer: Buffer,
        /// Duration of both; the last half is evaluated.
        length: Duration,
    },
    /// Small messages during a download.
    Priority {
        /// Time for which messages are sent.
        length: Duration,
    },
    /// A download over a part of a recorded trace, with a queue that never drops.
    Traced {
        /// Observed time.
        length: Duration,
        /// Start of the measurement in the trace.
        offset: Duration,
    },
    /// A download over a link on which 2 % of the packets are overtaken by up to ten others.
    Reordered {
        /// Observed time.
        length: Duration,
    },
    /// A download during which the client's address changes.
    AddressChange,
    /// A download during which the network begins to drop UDP. The session may use TLS.
    UdpDies,
    /// Opening a session where the network drops UDP. The session may use TLS.
    UdpBlocked {
        /// What the client knows.
        network: KnownNetwork,
    },
    /// A download by a client with wrong link rates. Only for systems that use link rates.
    WrongProfile {
        /// The wrong rates.
        wrong_rates: WrongRates,
    },
    /// An open session without use.
    Idle {
        /// Duration.
        length: Duration,
    },
    /// Downloads that are cancelled before their end.
    Cancel,
    /// Messages of which one packet is lost, alternating with messages without loss.
    LostPacket {
        /// The lost packet.
        which: LostPacket,
        /// Number of pairs of messages, with one that loses a packet and one that does not.
        pairs: u16,
    },
}

/// Wrong link rates for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrongRates {
    /// Ten times the real rates.
    TooFast,
    /// A tenth of the real rates.
    TooSlow,
}

impl WrongRates {
    pub(crate) fn of(self, link: LinkProfile) -> LinkProfile {
        let scaled = |rate: BitRate| match self {
            Self::TooFast => BitRate::bps(rate.as_bps().saturating_mul(10)),
            Self::TooSlow => BitRate::bps(rate.as_bps() / 10),
        };
        LinkProfile {
            down: scaled(link.down),
            up: scaled(link.up),
            rtt: link.rtt,
        }
    }
}

/// The packet that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostPacket {
    /// The last packet of a response of several packets.
    Tail,
    /// The only packet of a request.
    Request,
}

/// State before a response is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionBefore {
    /// An open session that has carried 2 kB and has been idle since.
    Open,
    /// No session, but the client's data from earlier sessions: a token, a ticket.
    None,
}

/// System of the second of two flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rival {
    /// The same system, with a separate client.
    Same,
    /// Kernel CUBIC.
    Cubic,
}

/// The bound of the queue towards the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// The profile's.
    Profile,
    /// Number of bandwidth-delay products.
    Bdp(u8),
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk {
                length,
                loss_per_mille: 0,
            } => write!(f, "bulk of {} s", length.as_secs()),
            Self::Bulk {
                length,
                loss_per_mille,
            } => {
                let percent = f64::from(*loss_per_mille) / 10.0;
                write!(f, "bulk of {} s with {percent} % loss", length.as_secs())
            }
            Self::Bundle { bytes, session } => {
                let session = match session {
                    SessionBefore::Open => "open session",
                    SessionBefore::None => "no session",
                };
                write!(f, "bundle of {} kB, {session}", bytes / 1000)
            }
            Self::Outage { length } => write!(f, "outage of {} s", length.as_secs()),
            Self::TwoFlows {
                rival,
                buffer,
                length,
            } => {
                let rival = match rival {
                    Rival::Same => "two flows",
                    Rival::Cubic => "beside a CUBIC flow",
                };
                let buffer = match buffer {
                    Buffer::Profile => String::new(),
                    Buffer::Bdp(count) => format!(", buffer {count} BDP"),
                };
                write!(f, "{rival} of {} s{buffer}", length.as_secs())
            }
            Self::Priority { length } => write!(f, "messages beside a bulk of {} s", length.as_secs()),
            Self::Traced { length, offset } => {
                write!(f, "trace from {} s, {} s", offset.as_secs(), length.as_secs())
            }
            Self::Reordered { length } => write!(f, "reordered bulk of {} s", length.as_secs()),
            Self::AddressChange => f.write_str("address change"),
            Self::UdpDies => f.write_str("UDP dies"),
            Self::UdpBlocked {
                network: KnownNetwork::Unknown,
            } => f.write_str("UDP blocked, unknown network"),
            Self::UdpBlocked {
                network: KnownNetwork::Remembered,
            } => f.write_str("UDP blocked, remembered network"),
            Self::WrongProfile {
                wrong_rates: WrongRates::TooFast,
            } => f.write_str("profile ten times too fast"),
            Self::WrongProfile {
                wrong_rates: WrongRates::TooSlow,
            } => f.write_str("profile ten times too slow"),
            Self::Idle { length } => write!(f, "idle session of {} s", length.as_secs()),
            Self::Cancel => f.write_str("cancelled bulk"),
            Self::LostPacket {
                which: LostPacket::Tail,
                ..
            } => f.write_str("lost tail"),
            Self::LostPacket {
                which: LostPacket::Request,
                ..
            } => f.write_str("lost request"),
        }
    }
}

impl Experiment {
    /// Returns the hop of the world in which this experiment runs.
    pub fn hop(&self, link: &LinkDefinition) -> HopConfig {
        let mut hop = link.hop.clone();
        match *self {
            Self::Bulk { loss_per_mille, .. } => {
                if loss_per_mille > 0 {
                    let loss = Loss::Random(Probability::per_mille(loss_per_mille.min(1000)));
                    hop.down.loss = loss;
                    hop.up.loss = loss;
                }
            }
            Self::Outage { length } => {
                let outage = Outage {
                    start: DISTURBED_AT,
                    length: length.max(Duration::from_millis(1)),
                    behaviour: WhileOut::Hold,
                };
                // One outage with a length above zero is always a valid schedule.
                let schedule = OutageSchedule::new(vec![outage]).unwrap_or_default();
                hop.down.outages = schedule.clone();
                hop.up.outages = schedule;
            }
            Self::TwoFlows {
                buffer: Buffer::Bdp(count),
                ..
            } => hop.down.queue = bdp(link, count).max(MIN_BUFFER),
            Self::Traced { offset, .. } => {
                for direction in [&mut hop.down, &mut hop.up] {
                    direction.queue = ENDLESS_BUFFER;
                    if let Capacity::Trace(trace) = &direction.capacity {
                        direction.capacity = Capacity::Trace(trace.clone().starting_at(offset));
                    }
                }
            }
            Self::Reordered { .. } => {
                let reordering = Reordering {
                    share: Probability::per_mille(20),
                    extra_delay: REORDERED_BY.max((FULL_PACKET / link.rate_down()) * 2),
                    max_distance: 10,
                };
                hop.down.reordering = Some(reordering);
                hop.up.reordering = Some(reordering);
            }
            Self::AddressChange => hop.address_changes = AddressChanges::at([DISTURBED_AT]),
            Self::TwoFlows {
                buffer: Buffer::Profile,
                ..
            }
            | Self::Bundle { .. }
            | Self::Priority { .. }
            | Self::WrongProfile { .. }
            | Self::UdpDies
            | Self::UdpBlocked { .. }
            | Self::Idle { .. }
            | Self::Cancel
            | Self::LostPacket { .. } => {}
        }
        hop
    }

    /// Returns true if the experiment is meaningful for this system.
    pub const fn suits(&self, system: System) -> bool {
        let needs_udp = matches!(
            self,
            Self::WrongProfile { .. } | Self::UdpDies | Self::UdpBlocked { .. }
        );
        // TCP repeats a lost packet, whatever it contains.
        let is_meaningless = matches!((self, system), (Self::LostPacket { .. }, System::LonghaulTls));
        !is_meaningless && (!needs_udp || matches!(system, System::Longhaul))
    }

    /// Returns the wrong link rates for clients, if any.
    pub(crate) const fn wrong_rates(&self) -> Option<WrongRates> {
        if let Self::WrongProfile { wrong_rates } = self {
            Some(*wrong_rates)
        } else {
            None
        }
    }

    /// Returns the time by which the experiment has ended on this link for any system; a worker that is still
    /// running then has hung.
    pub fn limit(&self, link: &LinkDefinition) -> Duration {
        let begins = Duration::from_secs(150) + link.rtt() * 20;
        begins
            + match *self {
                Self::Bulk { length, .. } | Self::TwoFlows { length, .. } => length,
                Self::Bundle { bytes, .. } => bundle_limit(link, bytes),
                Self::Outage { length } => length + crate::outage::PATIENCE * 2,
                Self::Priority { length } => length + crate::priority::PATIENCE * 2,
                Self::Traced { length, .. } | Self::Reordered { length } | Self::Idle { length } => length,
                Self::AddressChange => crate::address::PATIENCE * 2,
                Self::UdpDies => crate::udp_blocked::PATIENCE * 2,
                Self::UdpBlocked { .. } => crate::udp_blocked::PATIENCE,
                Self::WrongProfile { .. } => crate::profile::LENGTH * 2,
                Self::Cancel => Duration::from_secs(120),
                Self::LostPacket { .. } => crate::lost_packet::LIMIT,
            }
    }
}

/// Returns the time limit of a response: ten times the time that the link needs, and a minute of back-off.
pub(crate) fn bundle_limit(link: &LinkDefinition, bytes: u64) -> Duration {
    (ByteCount::new(bytes) / link.rate_down()) * 10 + link.rtt() * 10 + Duration::from_secs(60)
}

fn bdp(link: &LinkDefinition, count: u8) -> ByteCount {
    let one = link.rate_down() * link.rtt();
    ByteCount::new(one.bytes().saturating_mul(u64::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments_for;

    #[test]
    fn experiments_survive_a_round_trip_through_json() -> Result<(), serde_json::Error> {
        for link in LinkDefinition::built_in() {
            for experiment in experiments_for(&link) {
                let line = serde_json::to_string(&experiment)?;
                assert_eq!(serde_json::from_str::<Experiment>(&line)?, experiment);
                assert!(!line.contains('\n'));
                assert!(experiment.limit(&link) > Duration::from_secs(60));
            }
        }
        Ok(())
    }

    #[test]
    fn hops_match_the_experiment() {
        let link = LinkDefinition::built_in().find(|link| link.name == "umts-384");
        let link = &link.expect("the testbed has umts-384");
        let lossy = Experiment::Bulk {
            length: Duration::from_secs(1),
            loss_per_mille: 50,
        };
        assert_eq!(
            lossy.hop(link).down.loss,
            Loss::Random(Probability::per_mille(50))
        );
        let outage = Experiment::Outage {
            length: Duration::from_secs(5),
        };
        assert_ne!(outage.hop(link).up.outages, OutageSchedule::default());
        let shallow = Experiment::TwoFlows {
            rival: Rival::Cubic,
            buffer: Buffer::Bdp(1),
            length: Duration::from_secs(1),
        };
        assert_eq!(shallow.hop(link).down.queue, link.rate_down() * link.rtt());
    }
}
