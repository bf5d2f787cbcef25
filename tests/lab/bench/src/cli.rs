//! The command line.
use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use longhaul_types::parse_duration;

use crate::{environment::BuildSource, loader::Loader, state::State};

/// Compares page loads with the ideal one-shot download, and with other systems.
///
/// Real programs load the pages over real kernels. The link between them is emulated: its rate, delay, queue
/// and losses are those of the profile. Emulated networks need root or unprivileged user namespaces.
#[derive(Debug, Parser)]
#[command(name = "longhaul-bench", version, max_term_width = 110)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Parses the arguments of this process; prints help, version or a mistake, and ends the process, where those
    /// ask for it.
    pub fn of_process(source: BuildSource) -> Self {
        let version = longhaul_types::version_text(env!("CARGO_PKG_VERSION"), source.commit_of_build());
        let matches = Self::command().version(version).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Loads pages over links through systems, in parallel, and compares each load with the ideal protocol
    Pages(Box<PagesArgs>),
    /// Visits pages again and again through one agent, and prints what its own comparison with direct visits says: its
    /// regression rate
    Visits(VisitsArgs),
    /// Measures bulk transfers, bundles, outages and fairness of the transport, compared with kernel TCP and
    /// QUIC
    Transport(TransportArgs),
    /// Transcodes pictures at each level, and measures size and similarity, compared with other encoders
    Images(ImagesArgs),
    /// Codes texts of pages with each coder, and compares the product's choice with the best coder in
    /// hindsight
    Codec(CodecArgs),
    /// Repeats the tables of the papers and switches off each technique, and writes a report with both figures
    Papers(PapersArgs),
    /// Creates one self-contained HTML report of results files
    Report(ReportArgs),
    /// Compares what browsers request near the gateway and behind a link: what a browser beside the gateway would find
    /// ahead
    Scout(ScoutArgs),
    /// Lists links, pages and systems
    List(ListArgs),
    /// One load in a separate network: the command starts this subcommand itself
    #[command(hide = true)]
    Worker,
}

/// Arguments of `pages`.
#[derive(Clone, Debug, Args)]
pub struct PagesArgs {
    /// Links: names of profiles, or `trace:FILE` for FILE.down and FILE.up
    #[arg(long, required = true, value_delimiter = ',')]
    pub link: Vec<String>,
    /// A TOML file with link definitions
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// `reference` for all reference pages, names of reference pages, a folder of WARC files, or FOLDER:NAME
    /// for one of them
    #[arg(long, required = true, value_delimiter = ',')]
    pub pages: Vec<String>,
    /// Browsers
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Loader::Model])]
    pub loader: Vec<Loader>,
    /// Systems: see `longhaul-bench list`
    #[arg(long, value_delimiter = ',', default_value = "direct,longhaul")]
    pub system: Vec<String>,
    /// State of sessions and caches when a load begins
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [State::Cold])]
    pub state: Vec<State>,
    /// Scheme under which the loads of recorded pages begin
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ReplayScheme::Recorded])]
    pub scheme: Vec<ReplayScheme>,
    /// Image quality that Longhaul is configured for
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageLevel::Original])]
    pub image_level: Vec<ImageLevel>,
    /// Techniques of Longhaul to switch off together, separated by commas; repeated for further loads. `each`
    /// switches off one after the other, `none` nothing
    #[arg(long, value_name = "NAMES")]
    pub without: Vec<String>,
    /// The only techniques of Longhaul to use, as in --without
    #[arg(long, value_name = "NAMES")]
    pub only: Vec<String>,
    /// Pipelined systems use one connection, with at most this number of unanswered requests [default: two
    /// connections with eight]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub outstanding: Vec<u32>,
    /// Link over which the agent of longhaul-remembered used the network before, if it is not the link of the load: a
    /// memory that is wrong
    #[arg(long, value_name = "LINK")]
    pub remembered_from: Option<String>,
    /// Concurrent traffic through the same system
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Beside::Nothing])]
    pub beside: Vec<Beside>,
    /// Repetitions of each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Concurrent loads, each in a separate network [default: 8 below 1 Mbit/s with model and 4 with
    /// chromium; 1 above 10 Mbit/s; else 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Results file; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: PathBuf,
    /// Keeps the rows of the results file, and measures only the missing ones
    #[arg(long)]
    pub resume: bool,
    /// Seed of the links' random draws and of the order of loads
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Rows that contain the data of their waterfall and curves
    #[arg(long, value_enum, default_value_t = DetailRows::First)]
    pub detail: DetailRows,
    /// Chromium writes a PNG of each loaded page to this folder; those of all systems are compared with those
    /// of `direct`
    #[arg(long, value_name = "FOLDER")]
    pub screenshots: Option<PathBuf>,
    /// Time limit of a load [default: 12 times the ideal, from two minutes to an hour]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
    /// The Internet behind the gateway.
    #[command(flatten)]
    pub internet: InternetArgs,
    /// Behaviour of the origins.
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// Arguments of `visits`.
#[derive(Clone, Debug, Args)]
pub struct VisitsArgs {
    /// Link: the name of a profile, or `trace:FILE` for FILE.down and FILE.up. Agents compare only on links with a round
    /// trip below 150 ms and 2 Mbit/s or more
    #[arg(long)]
    pub link: String,
    /// A TOML file with link definitions
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// Pages, as in `pages`: visited in random order
    #[arg(long, required = true, value_delimiter = ',')]
    pub pages: Vec<String>,
    /// Browser
    #[arg(long, value_enum, default_value_t = Loader::Chromium)]
    pub loader: Loader,
    /// Systems between browser and origins: longhaul, longhaul-unknown, longhaul-tls, longhaul-quic
    #[arg(long, value_delimiter = ',', default_value = "longhaul")]
    pub system: Vec<String>,
    /// Scheme of recorded pages. The agent compares tunnels (https) by their first bytes, and pages (http) as a whole. An
    /// accelerated https page cannot be compared here: a direct visit would need a certificate of a public authority
    #[arg(long, value_enum, default_value_t = ReplayScheme::Recorded)]
    pub scheme: ReplayScheme,
    /// Number of visits. One in 50 is held out, and a verdict needs six to eight comparisons
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub visits: u32,
    /// Results file: each visit and the agent's comparison; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of the link's random draws and of the order of visits
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Time limit of a visit [default: 12 times the ideal, from two minutes to an hour]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
}

/// The network between gateway and origins.
#[derive(Clone, Debug, Args)]
pub struct InternetArgs {
    /// Loss between gateway and origins, percent of packets in each direction
    #[arg(long, value_delimiter = ',', default_values_t = [0.0], value_name = "PERCENT")]
    pub internet_loss: Vec<f64>,
    /// One-way delay between gateway and origins
    #[arg(long, value_parser = parse_duration, default_value = "20ms", value_name = "TIME")]
    pub internet_delay: Duration,
    /// Congestion control of kernel TCP in all three namespaces: cubic, bbr, reno [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
}

/// Behaviour of the origins.
#[derive(Clone, Debug, Args)]
pub struct OriginArgs {
    /// Think time of an origin before each response
    #[arg(long, value_parser = parse_duration, default_value = "0ms", value_name = "TIME")]
    pub think_time: Duration,
    /// An origin closes a connection after this number of responses, unannounced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub close_after: Option<u32>,
    /// An origin closes a connection after each response, as in HTTP/1.0
    #[arg(long)]
    pub no_keep_alive: bool,
    /// An origin closes a connection after this idle time
    #[arg(long, value_parser = parse_duration, default_value = "60s", value_name = "TIME")]
    pub keep_alive_timeout: Duration,
}

/// Arguments of `transport`.
#[derive(Clone, Debug, Args)]
pub struct TransportArgs {
    /// Links: names of profiles, or `trace:FILE` for FILE.down and FILE.up
    #[arg(long, required = true, value_delimiter = ',')]
    pub link: Vec<String>,
    /// A TOML file with link definitions
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// Systems to compare with Longhaul: cubic, bbr, quinn, quinn-tuned, quinn-bbr
    #[arg(long, value_delimiter = ',', default_value = "cubic,bbr,quinn")]
    pub against: Vec<String>,
    /// Experiments by the first words of their names, such as `bulk`, `bundle`, `outage of 5 s` [default: all
    /// that are meaningful for the link]
    #[arg(long, value_delimiter = ',')]
    pub experiment: Vec<String>,
    /// Results file; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: PathBuf,
    /// Repetitions of each experiment, each with different random draws
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Congestion control of kernel TCP in all three namespaces: cubic, bbr, reno [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Omits the curves from the results
    #[arg(long)]
    pub no_series: bool,
    /// Seed of the links' random draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Concurrent experiments [default: 8 below 1 Mbit/s, 4 up to 20 Mbit/s, else 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
}

/// Arguments of `images`.
#[derive(Clone, Debug, Args)]
pub struct ImagesArgs {
    /// Pages with pictures: `reference`, names, a folder of WARC files, or FOLDER:NAME [default: reference,
    /// if no folder is given]
    #[arg(long, value_delimiter = ',')]
    pub pages: Vec<String>,
    /// A folder of pictures, including its subfolders
    #[arg(long, value_name = "DIR")]
    pub folder: Vec<PathBuf>,
    /// Image quality levels
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low])]
    pub level: Vec<ImageLevel>,
    /// Efforts: quick, standard, checked
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageEffort::Standard, ImageEffort::Checked])]
    pub effort: Vec<ImageEffort>,
    /// Task
    #[arg(long, value_enum, default_value_t = ImageTask::Compare)]
    pub task: ImageTask,
    /// Results file; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Task of `images`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageTask {
    /// Compares levels, efforts and other encoders.
    Compare,
    /// Prints the quality table of longhaul-transcode, computed from these pictures.
    Fit,
    /// Prints the processor time of a picture on one core.
    Speed,
}

/// Processor time spent on a transcoded picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageEffort {
    /// Quality from the table, fast encoding.
    Quick,
    /// Quality from the table.
    Standard,
    /// Quality measured and corrected.
    Checked,
}

/// Arguments of `codec`.
#[derive(Clone, Debug, Args)]
pub struct CodecArgs {
    /// Pages with texts: `reference`, names, a folder of WARC files, or FOLDER:NAME; recorded editions serve
    /// as bases of the next ones
    #[arg(long, value_delimiter = ',', default_value = "reference")]
    pub pages: Vec<String>,
    /// Number of times that each coder codes each text; the median time counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Results file; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of `papers`.
#[derive(Clone, Debug, Args)]
pub struct PapersArgs {
    /// Folder of the results files and of the report (papers.html, papers.md, papers.svg)
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// One run of each load, and fewer loads
    #[arg(long)]
    pub short: bool,
    /// Concurrent loads, as in `pages`
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Keeps the rows of results files in the folder, and measures only the missing ones
    #[arg(long)]
    pub resume: bool,
    /// A sentence about the run, for the report; may be repeated
    #[arg(long, value_name = "SENTENCE")]
    pub note: Vec<String>,
}

/// Arguments of `scout`.
#[derive(Clone, Debug, Args)]
pub struct ScoutArgs {
    /// Results files of `pages --loader chromium`, with loads of the same pages by direct-h2 over lan-fast and by
    /// Longhaul over other links
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Results files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File of the report
    #[arg(long, value_name = "FILE.html")]
    pub out: PathBuf,
    /// File for the tables as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,
    /// File for the drawing of throughput versus queueing delay on recorded traces
    #[arg(long, value_name = "FILE.svg")]
    pub trace_plot: Option<PathBuf>,
}

/// Arguments of `list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// A TOML file with link definitions
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// A folder of WARC files to list in addition
    #[arg(long, value_name = "FOLDER")]
    pub pages: Option<PathBuf>,
}

/// Scheme under which the load of a recorded page begins. Generated pages have a fixed scheme.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayScheme {
    /// The recorded scheme: most sites' is https, which passes Longhaul as a tunnel.
    Recorded,
    /// http: Longhaul can read the page. Links to https in the page are unchanged, and are answered.
    Http,
}

impl ReplayScheme {
    /// Returns its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Http => "http",
        }
    }
}

/// Concurrent traffic on the hop during a page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// No other traffic.
    Nothing,
    /// An endless download through the same system.
    Bulk,
    /// Endless requests of another device, which is in the gateway's network, to the page's own host.
    Requests,
}

/// Image quality, from unchanged to no images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageLevel {
    /// As the origin sends them.
    Original,
    /// SSIMULACRA2 of 75.
    High,
    /// SSIMULACRA2 of 60.
    Medium,
    /// SSIMULACRA2 of 40.
    Low,
    /// No images.
    Text,
}

impl ImageLevel {
    /// Returns its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Text => "text",
        }
    }
}

/// Rows that contain the details of their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DetailRows {
    /// All rows: about 20 kB per row.
    All,
    /// Rows of the first run of each load.
    First,
    /// No row.
    None,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_clap_definition_is_valid() {
        Cli::command().debug_assert();
    }
}
