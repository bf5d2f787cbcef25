//! Selection of experiments for a link.
use std::time::Duration;

use longhaul_netem::{Capacity, LinkDefinition};
use longhaul_types::BitRate;

use crate::{
    experiment::{Buffer, Experiment, LostPacket, Rival, SessionBefore, WrongRates},
    udp_blocked::KnownNetwork,
};

/// Number of messages that lose a packet: sufficient for a 95th percentile.
const LOST_PAIRS: u16 = 30;
/// Distance between the starts of the measured parts of a trace.
const TRACE_STEP: Duration = Duration::from_secs(150);
/// Maximum number of parts of a trace.
const TRACE_PARTS: u32 = 4;
/// Length of a part.
const TRACE_PART: Duration = Duration::from_secs(60);

/// Returns the experiments of this link: those with bars of the transport, and those for comparison. About
/// ten minutes per system on a slow link, one after the other; they may run in parallel.
pub fn experiments_for(link: &LinkDefinition) -> Vec<Experiment> {
    if let Capacity::Trace(trace) = &link.hop.down.capacity {
        return of_trace(trace.period());
    }
    // A minute on a fast link moves hundreds of megabytes through the emulator, and gives no more information
    // than a quarter of it.
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
    experiments.push(Experiment::Reordered { length: bulk });
    experiments.push(Experiment::AddressChange);
    experiments.push(Experiment::UdpDies);
    experiments.extend(
        [KnownNetwork::Unknown, KnownNetwork::Remembered].map(|network| Experiment::UdpBlocked { network }),
    );
    experiments.extend(
        [WrongRates::TooFast, WrongRates::TooSlow]
            .map(|wrong_rates| Experiment::WrongProfile { wrong_rates }),
    );
    if !fast {
        experiments.push(Experiment::Idle {
            length: Duration::from_secs(100),
        });
    }
    experiments.push(Experiment::Cancel);
    experiments.extend(
        [LostPacket::Tail, LostPacket::Request].map(|which| Experiment::LostPacket {
            which,
            pairs: LOST_PAIRS,
        }),
    );
    experiments
}

/// Returns the beginning of a trace, further parts as far as it extends, and messages during a bulk download.
fn of_trace(period: Duration) -> Vec<Experiment> {
    // A trace of at most two parts' length still has two parts.
    let step = TRACE_STEP.min(period / 2);
    let mut experiments: Vec<_> = (0..TRACE_PARTS)
        .map(|number| step * number)
        .take_while(|offset| *offset < period)
        .map(|offset| Experiment::Traced {
            length: TRACE_PART,
            offset: Duration::from_secs(offset.as_secs()),
        })
        .collect();
    experiments.push(Experiment::Priority { length: TRACE_PART });
    experiments
}
