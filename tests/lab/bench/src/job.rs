//! Messages between the command and a worker: a job and a reply, one line of JSON each.
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_report::Row;
use serde::{Deserialize, Serialize};

use crate::{
    cli::{Beside, ImageLevel, ReplayScheme},
    link::LinkChoice,
    loader::Loader,
    state::State,
    switches::Switches,
    system::System,
};

/// A job of a worker in a separate network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// A page load.
    Load(Box<LoadJob>),
    /// Many page loads through one agent.
    Visits(Box<VisitsJob>),
    /// An experiment of the transport.
    Transport(Box<TransportJob>),
}

/// A page load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadJob {
    /// The page.
    pub page: PageChoice,
    /// The link between client and gateway.
    pub link: LinkChoice,
    /// The system between browser and origins.
    pub system: System,
    /// State of sessions and caches at the beginning.
    pub state: State,
    /// The browser.
    pub loader: Loader,
    /// Scheme under which the load begins, if the page is recorded.
    pub scheme: ReplayScheme,
    /// Configured image quality.
    pub image_level: ImageLevel,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// Seed of the links' random draws; the same for all systems of a run.
    pub seed: u64,
    /// The network behind the gateway.
    pub internet: Internet,
    /// Behaviour of the origins.
    pub origin: OriginBehaviour,
    /// Link over which an agent that remembers its network has used it; `None` for `link`.
    pub remembered_from: Option<LinkChoice>,
    /// Techniques of Longhaul that are switched off.
    pub switches: Switches,
    /// Maximum unanswered requests of a pipelined system on its only connection; `None` for its usual rules.
    pub outstanding: Option<u32>,
    /// Concurrent traffic on the hop.
    pub beside: Beside,
    /// True if the row must contain the load's details.
    pub detail: bool,
    /// Screenshot of the loaded page.
    pub picture: Picture,
    /// Time limit of the load.
    pub limit: Option<Duration>,
    /// Direct visits of the agent, for its comparison.
    pub hold_out: HoldOut,
    /// Folder of Longhaul's programs.
    pub bin_dir: PathBuf,
    /// Domains that have another name in this load, because the browser would not load them over http.
    pub renamed: BTreeSet<String>,
    /// URLs that a direct load of this page received; `None` if this is that load.
    pub expected: Option<BTreeSet<String>>,
}

impl LoadJob {
    /// A cold load without anything unusual, not timed in detail.
    pub fn cold(
        page: PageChoice,
        link: LinkChoice,
        (system, loader, scheme): (System, Loader, ReplayScheme),
        seed: u64,
        bin_dir: PathBuf,
    ) -> Self {
        Self {
            page,
            link,
            system,
            state: State::Cold,
            loader,
            scheme,
            image_level: ImageLevel::Original,
            run: 1,
            seed,
            internet: Internet {
                loss: 0.0,
                delay: Duration::from_millis(20),
                congestion: None,
            },
            origin: OriginBehaviour {
                think_time: Duration::ZERO,
                close_after: None,
                keep_alive: true,
                keep_alive_timeout: Duration::from_mins(1),
            },
            remembered_from: None,
            switches: Switches::default(),
            outstanding: None,
            beside: Beside::Nothing,
            detail: false,
            picture: Picture::None,
            limit: None,
            hold_out: HoldOut::Never,
            bin_dir,
            renamed: BTreeSet::new(),
            expected: None,
        }
    }

    /// Returns true if the browser requests the same objects in each load: the page is a generated one of the same edition, and
    /// the browser has no cache. Scripts of recorded pages make other requests each time.
    pub fn requests_are_known(&self) -> bool {
        let is_generated = matches!(self.page, PageChoice::Reference(_));
        is_generated && !matches!(self.state, State::NextEdition | State::Warm)
    }
}

/// Visits that an agent makes directly, to compare them with those through the gateway (decision 74).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldOut {
    /// None: each load measures what is between browser and origins.
    Never,
    /// One in 50, as for users.
    OneIn50,
}

/// Many page loads through one agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VisitsJob {
    /// The conditions. Its page is one of `pages`.
    pub load: LoadJob,
    /// The pages.
    pub pages: Vec<PageChoice>,
    /// Indexes into `pages`, in the order of the visits.
    pub order: Vec<usize>,
}

/// A visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visited {
    /// The page.
    pub page: String,
    /// Time until the load event, in seconds; `None` if the page did not load.
    pub time_s: Option<f64>,
    /// Objects that failed although their hosts exist.
    pub failed: usize,
    /// True if the agent sent at least one request of it directly.
    pub is_direct: bool,
}

/// Screenshot of a loaded page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Picture {
    /// No screenshot: the browser leaves the page as soon as it is loaded.
    None,
    /// The browser suppresses motion, waits until the page is quiet, and takes a screenshot.
    Taken,
}

/// An experiment of the transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransportJob {
    /// The hop.
    pub link: LinkChoice,
    /// The system.
    pub system: longhaul_bulk::System,
    /// The experiment.
    pub experiment: longhaul_bulk::Experiment,
    /// Congestion control of kernel TCP; `None` for the kernel's default.
    pub congestion: Option<String>,
    /// Seed of the link's random draws.
    pub seed: u64,
}

/// The network between gateway and origins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Internet {
    /// Share of packets lost in each direction, 0 to 1.
    pub loss: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Congestion control of kernel TCP; `None` for the kernel's default.
    pub congestion: Option<String>,
}

/// Behaviour of the origins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginBehaviour {
    /// Think time before each response.
    pub think_time: Duration,
    /// Number of responses on a connection before it is closed, unannounced.
    pub close_after: Option<u32>,
    /// True for persistent connections.
    pub keep_alive: bool,
    /// Maximum idle time of a connection.
    pub keep_alive_timeout: Duration,
}

/// A page by its name on the command line, so that a worker finds the same page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageChoice {
    /// A generated reference page.
    Reference(String),
    /// A page of a folder of recordings.
    Recorded {
        /// The folder.
        folder: PathBuf,
        /// The page.
        name: String,
    },
}

impl PageChoice {
    /// Returns the page's name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Reference(name) | Self::Recorded { name, .. } => name,
        }
    }

    /// Returns the folder from which a worker reads it.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Reference(_) => None,
            Self::Recorded { folder, .. } => Some(folder),
        }
    }
}

/// A worker's reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The load has ended.
    Loaded {
        /// Its row.
        row: Box<Row>,
        /// The delivered URLs.
        delivered: BTreeSet<String>,
        /// Domains that the browser loaded over https although they were requested over http.
        upgraded: BTreeSet<String>,
        /// Screenshot of the loaded page, a PNG in Base64.
        picture: Option<String>,
    },
    /// The visits have ended.
    Visited {
        /// The visits, in their order.
        visits: Vec<Visited>,
        /// The agent's `hold_out`, as in `/status.json`: one object for tunnels and one for pages.
        hold_out: serde_json::Value,
    },
    /// The experiment has ended.
    Measured(Box<longhaul_bulk::Measured>),
    /// The job failed without figures.
    Failed {
        /// The reason, in one line.
        reason: String,
        /// True if all other jobs would fail, too: missing privileges, missing Chromium.
        fatal: bool,
    },
}
