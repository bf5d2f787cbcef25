//! The loads, alternately over both ways.
use std::time::Duration;

use longhaul_replay::page::{Client, Loader, PageLoad, Route, client_trust};
use longhaul_types::ByteCount;

use super::{
    SpeedError, SpeedOptions,
    agent_figures::{AgentFigures, LinkFigures},
};
use crate::agent_state::RunningAgent;

/// A way to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From this computer, without the agent.
    Direct,
    /// Through the agent and its gateway.
    Longhaul,
}

impl Way {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Longhaul => "Longhaul",
        }
    }
}

/// One load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Time from the first request to the end of the last object.
    pub time: Duration,
    /// Directly: bytes of bodies as transferred. Through Longhaul: bytes on the hop in both directions, with all headers.
    pub bytes: ByteCount,
    /// Number of objects.
    pub objects: usize,
    /// URLs that did not arrive, with the reasons.
    pub failures: Vec<(String, String)>,
}

/// All loads of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The page's URL.
    pub url: String,
    /// The direct loads.
    pub direct: Vec<Load>,
    /// The loads through Longhaul.
    pub longhaul: Vec<Load>,
    /// Size of the page in the ideal download: text as by `gzip -9`, everything else as it is.
    pub ideal_size: ByteCount,
    /// The link.
    pub link: LinkFigures,
    /// True if the limit on bytes ended the measurement early.
    pub is_limited: bool,
}

impl Measurement {
    /// The median time of a way; `None` without loads.
    pub fn median(&self, way: Way) -> Option<Duration> {
        let loads = match way {
            Way::Direct => &self.direct,
            Way::Longhaul => &self.longhaul,
        };
        let mut times: Vec<Duration> = loads.iter().map(|load| load.time).collect();
        times.sort_unstable();
        // Of an even number, the greater of both in the middle.
        times.get(times.len() / 2).copied()
    }

    /// Time of the ideal one-shot download at the measured rate; `None` if nothing was measured.
    pub fn ideal(&self) -> Option<Duration> {
        let rate = self.link.rate.filter(|rate| rate.as_bps() > 0)?;
        Some(self.link.min_rtt? + self.ideal_size / rate)
    }

    /// Number of failed objects of all loads.
    pub fn failed(&self) -> usize {
        let loads = self.direct.iter().chain(&self.longhaul);
        loads.map(|load| load.failures.len()).sum()
    }
}

/// Loads the page alternately over both ways; `progress` gets each load when it ends.
///
/// Each load begins without connections, cookies and cache of its own. The agent's cache is as it is: what an earlier load
/// through Longhaul has brought need not come again, as in a browser.
///
/// # Errors
/// The agent ends, or the limit does not suffice for one load over each way.
pub async fn measure(
    agent: &RunningAgent,
    options: &SpeedOptions,
    mut progress: impl FnMut(Way, &Load),
) -> Result<Measurement, SpeedError> {
    let mut figures = AgentFigures::of(agent);
    let authority: Vec<_> = figures.authority().await?.into_iter().collect();
    let trust = client_trust(&authority)?;
    let mut all = Measurement {
        url: options.page.to_string(),
        direct: Vec::new(),
        longhaul: Vec::new(),
        ideal_size: ByteCount::ZERO,
        link: LinkFigures::default(),
        is_limited: false,
    };
    let mut spent = ByteCount::ZERO;
    'loads: for _ in 0..options.loads {
        for way in [Way::Direct, Way::Longhaul] {
            let route = match way {
                Way::Direct => Route::Direct,
                Way::Longhaul => Route::Proxy(agent.proxy),
            };
            let loader = Loader::new(Client::new(route, trust.clone()), None);
            let before = figures.resting_hop_bytes().await?;
            let load = loader.load(&options.page, |_, _| {});
            let is_over = |hop: ByteCount| {
                let of_load = match way {
                    Way::Direct => loader.received(),
                    Way::Longhaul => hop.saturating_sub(before),
                };
                spent + of_load > options.limit
            };
            let loaded = figures.during(load, is_over).await?;
            let bytes = match way {
                Way::Direct => loader.received(),
                Way::Longhaul => figures.resting_hop_bytes().await?.saturating_sub(before),
            };
            spent += bytes;
            let Some(loaded) = loaded else {
                all.is_limited = true;
                break 'loads;
            };
            if way == Way::Direct {
                all.ideal_size = all.ideal_size.max(loaded.ideal_size());
            }
            let load = summary(&loaded, bytes);
            progress(way, &load);
            match way {
                Way::Direct => all.direct.push(load),
                Way::Longhaul => all.longhaul.push(load),
            }
        }
    }
    if all.longhaul.is_empty() {
        return Err(SpeedError::TooLarge {
            received: spent,
            limit: options.limit,
            done: all.direct.len(),
        });
    }
    all.link = figures.link;
    Ok(all)
}

fn summary(load: &PageLoad, bytes: ByteCount) -> Load {
    Load {
        time: load.time,
        bytes,
        objects: load.objects.len(),
        failures: load
            .failures()
            .map(|(url, reason)| (url.to_string(), reason.to_owned()))
            .collect(),
    }
}
