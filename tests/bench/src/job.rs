//! What the command asks of a worker, and what it answers: one line of JSON each.
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
    system::System,
};

/// One piece of work in a network of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Job {
    /// A page load.
    Load(Box<LoadJob>),
    /// An experiment of the transport.
    Transport(Box<TransportJob>),
}

/// A page load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadJob {
    /// The page.
    pub page: PageChoice,
    /// The hop.
    pub link: LinkChoice,
    /// What stands between browser and origins.
    pub system: System,
    /// What is held at the beginning.
    pub state: State,
    /// The browser.
    pub loader: Loader,
    /// Under which scheme the load begins, if the page is recorded.
    pub scheme: ReplayScheme,
    /// Image quality asked for.
    pub image_level: ImageLevel,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// Seed of the links' draws; the same for all systems of a run.
    pub seed: u64,
    /// The network behind the gateway.
    pub internet: Internet,
    /// How origins behave.
    pub origin: OriginBehaviour,
    /// What else uses the hop.
    pub beside: Beside,
    /// Whether the row is to keep the load's course.
    pub detail: bool,
    /// Whether a picture is to be taken of the loaded page.
    pub picture: Picture,
    /// Longest load.
    pub limit: Option<Duration>,
    /// Where Longhaul's programs are.
    pub bin_dir: PathBuf,
    /// Domains that have another name in this load: the browser would not load them over http.
    pub renamed: BTreeSet<String>,
    /// URLs that a direct load of this page got; none when this is that load.
    pub expected: Option<BTreeSet<String>>,
}

/// Whether a picture is taken of a loaded page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Picture {
    /// The page is left as soon as it is loaded.
    None,
    /// The browser holds still what moves by itself, waits until the page is quiet, and takes its picture.
    Taken,
}

/// An experiment of the transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransportJob {
    /// The hop.
    pub link: LinkChoice,
    /// The system.
    pub system: longhaul_bulk::System,
    /// What is measured.
    pub experiment: longhaul_bulk::Experiment,
    /// Seed of the link's draws.
    pub seed: u64,
}

/// The network between gateway and origins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Internet {
    /// Share of packets lost each way, 0 to 1.
    pub loss: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Congestion control of kernel TCP; the kernel's default without it.
    pub congestion: Option<String>,
}

/// How origins behave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginBehaviour {
    /// Before each answer.
    pub think_time: Duration,
    /// Answers on a connection before it is closed unannounced.
    pub close_after: Option<u32>,
    /// Whether connections are kept at all.
    pub keep_alive: bool,
    /// How long an idle connection is kept.
    pub keep_alive_timeout: Duration,
}

/// A page as the command line names it, so that a worker finds the same.
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
    /// The page's name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Reference(name) | Self::Recorded { name, .. } => name,
        }
    }

    /// The folder that a worker reads it from.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Reference(_) => None,
            Self::Recorded { folder, .. } => Some(folder),
        }
    }
}

/// A worker's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The load is done.
    Loaded {
        /// Its row.
        row: Box<Row>,
        /// The URLs that arrived.
        delivered: BTreeSet<String>,
        /// Domains that the browser loaded over https although it was to load them over http.
        upgraded: BTreeSet<String>,
        /// The picture of the loaded page, a PNG in Base64.
        picture: Option<String>,
    },
    /// The experiment is done.
    Measured(Box<longhaul_bulk::Measured>),
    /// The work could not be done: no figure, and the reason.
    Failed {
        /// What went wrong, in one line.
        reason: String,
        /// Whether it makes no sense to go on with other work: no privileges, no Chromium.
        fatal: bool,
    },
}
