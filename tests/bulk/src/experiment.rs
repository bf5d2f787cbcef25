//! What is measured on a link.
use std::{fmt, time::Duration};

use longhaul_netem::{HopConfig, LinkDefinition, Loss, Outage, OutageSchedule, Probability, WhileOut};
use longhaul_types::{BitRate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

/// When a scripted outage begins, since the world's start: every system has a connection and has filled the link by then.
pub(crate) const OUTAGE_AT: Timestamp = Timestamp::from_nanos(20_000_000_000);
/// The smallest buffer that an experiment sets: four packets of Ethernet's size.
const LEAST_BUFFER: ByteCount = ByteCount::new(6000);

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
                    start: OUTAGE_AT,
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
            Self::TwoFlows {
                buffer: Buffer::Profile,
                ..
            }
            | Self::Bundle { .. }
            | Self::Priority { .. } => {}
        }
        hop
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

/// The experiments of this link: what the bars of the transport name, and what they are compared with. About ten minutes a system on
/// a slow link, run one after the other; they may run side by side.
pub fn experiments_for(link: &LinkDefinition) -> Vec<Experiment> {
    // A minute there moves hundreds of megabytes through the emulator, and says no more than a quarter of one.
    let fast = link.rate_down() > BitRate::kbps(20_000);
    let bulk = Duration::from_secs(if fast { 15 } else { 60 });
    let mut experiments = vec![Experiment::Bulk {
        length: bulk,
        loss_per_mille: 0,
    }];
    let losses: &[u16] = match link.name.as_str() {
        "umts-384" | "lte" => &[50, 100],
        "geo-sat" => &[10, 50, 100],
        _ => &[],
    };
    experiments.extend(losses.iter().map(|&loss_per_mille| Experiment::Bulk {
        length: bulk,
        loss_per_mille,
    }));
    experiments.extend([20_000, 60_000, 300_000].map(|bytes| Experiment::Bundle {
        bytes,
        session: SessionBefore::Open,
    }));
    experiments.push(Experiment::Bundle {
        bytes: 60_000,
        session: SessionBefore::None,
    });
    let outages: &[u64] = if fast { &[5] } else { &[5, 20, 40] };
    experiments.extend(outages.iter().map(|&seconds| Experiment::Outage {
        length: Duration::from_secs(seconds),
    }));
    let two_flows = |rival, buffer| Experiment::TwoFlows {
        rival,
        buffer,
        length: Duration::from_secs(if fast { 40 } else { 120 }),
    };
    experiments.push(two_flows(Rival::Same, Buffer::Profile));
    if link.rate_down() > BitRate::kbps(100) {
        experiments.push(two_flows(Rival::Cubic, Buffer::Bdp(1)));
        experiments.push(two_flows(Rival::Cubic, Buffer::Bdp(4)));
    }
    experiments.push(Experiment::Priority { length: bulk });
    experiments
}

#[cfg(test)]
mod tests {
    use super::*;

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
