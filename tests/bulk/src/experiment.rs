//! What is measured on a link.
use std::{fmt, time::Duration};

use longhaul_netem::{
    AddressChanges, Capacity, HopConfig, LinkDefinition, Loss, Outage, OutageSchedule, Probability,
    Reordering, WhileOut,
};
use longhaul_types::{BitRate, ByteCount, LinkProfile, Timestamp};
use serde::{Deserialize, Serialize};

use crate::system::System;

/// When a scripted outage begins or the address changes, since the world's start: every system has a connection and has filled the link by
/// then.
pub(crate) const DISTURBED_AT: Timestamp = Timestamp::from_nanos(20_000_000_000);
/// The smallest buffer that an experiment sets: four packets of Ethernet's size.
const LEAST_BUFFER: ByteCount = ByteCount::new(6000);
/// A queue that no sender fills: the kernel's largest receive window is a hundredth of it.
const ENDLESS_BUFFER: ByteCount = ByteCount::new(1 << 30);
/// An Ethernet packet.
const FULL_PACKET: ByteCount = ByteCount::new(1500);
/// How much longer a packet takes that is overtaken; two packet times where these are longer.
const REORDERED_BY: Duration = Duration::from_millis(20);

/// An experiment. Each one wants a fresh world, whose hop is [`Experiment::hop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// A download that fills the link.
    Bulk {
        /// How long it is watched, behind its first two round trips.
        length: Duration,
        /// Packets of a thousand that the link loses each way, beside the loss of its profile.
        loss_per_mille: u16,
    },
    /// One response of known size.
    Bundle {
        /// Its size.
        bytes: u64,
        /// Whether a session is open before.
        session: SessionBefore,
    },
    /// A download, in the middle of which the link holds everything for a while.
    Outage {
        /// For how long.
        length: Duration,
    },
    /// Two downloads at a time, the second one some time behind the first.
    TwoFlows {
        /// What the second one is.
        rival: Rival,
        /// The link's queue towards the client.
        buffer: Buffer,
        /// How long they run; the last half counts.
        length: Duration,
    },
    /// Small messages beside a download.
    Priority {
        /// How long messages are sent.
        length: Duration,
    },
    /// A download over a part of a recorded trace, with a queue that never drops.
    Traced {
        /// How long it is watched.
        length: Duration,
        /// Where in the trace it begins.
        offset: Duration,
    },
    /// A download over a link on which 2 % of the packets are overtaken by up to ten others.
    Reordered {
        /// How long it is watched.
        length: Duration,
    },
    /// A download, in the middle of which the client's address changes.
    AddressChange,
    /// A download by a client that was told wrong rates. Only for systems that are told any.
    WrongProfile {
        /// What it was told.
        told: Told,
    },
    /// An open session that nobody uses.
    Idle {
        /// For how long.
        length: Duration,
    },
    /// Downloads that are given up in the middle.
    Cancel,
    /// Messages of which one packet is lost, beside ones of which none is.
    LostPacket {
        /// Which one.
        which: LostPacket,
        /// Pairs of messages, each of one that loses a packet and one that does not.
        pairs: u16,
    },
}

/// What a client is told of the link's rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Ten times what they are.
    TooFast,
    /// A tenth of what they are.
    TooSlow,
}

impl Told {
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
    /// The last one of a response of several.
    Tail,
    /// The only one of a request.
    Request,
}

/// What there is before a response is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionBefore {
    /// An open session that has carried 2 kB and been quiet since.
    Open,
    /// Nothing but what the client keeps from earlier sessions: a token, a ticket.
    None,
}

/// The second of two flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rival {
    /// Of the same system, by a client of its own.
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
    /// So many bandwidth-delay products.
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
            Self::WrongProfile { told: Told::TooFast } => f.write_str("profile ten times too fast"),
            Self::WrongProfile { told: Told::TooSlow } => f.write_str("profile ten times too slow"),
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
    /// The hop of the world that this experiment is to be run in.
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
                // One outage of some length is always a schedule.
                let schedule = OutageSchedule::new(vec![outage]).unwrap_or_default();
                hop.down.outages = schedule.clone();
                hop.up.outages = schedule;
            }
            Self::TwoFlows {
                buffer: Buffer::Bdp(count),
                ..
            } => hop.down.queue = bdp(link, count).max(LEAST_BUFFER),
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
            | Self::Idle { .. }
            | Self::Cancel
            | Self::LostPacket { .. } => {}
        }
        hop
    }

    /// Whether it says anything of this system.
    pub const fn suits(&self, system: System) -> bool {
        self.told().is_none() || matches!(system, System::Longhaul)
    }

    /// What clients are told of the link if it is not the truth.
    pub(crate) const fn told(&self) -> Option<Told> {
        if let Self::WrongProfile { told } = self {
            Some(*told)
        } else {
            None
        }
    }

    /// A time by which it is over on this link whatever the system does; a worker that is still busy then hangs.
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
                Self::WrongProfile { .. } => crate::profile::LENGTH * 2,
                Self::Cancel => Duration::from_secs(120),
                Self::LostPacket { .. } => crate::lost_packet::LIMIT,
            }
    }
}

/// A response that takes longer has failed: ten times what the link needs, and a minute of back-off.
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
    fn experiments_cross_a_pipe_as_json() -> Result<(), serde_json::Error> {
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
    fn hops_have_what_the_experiment_needs() {
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
