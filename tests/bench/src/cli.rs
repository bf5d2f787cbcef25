//! The command line.
use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use longhaul_types::parse_duration;

use crate::{loader::Loader, state::State};

/// Measures how close a page load comes to the ideal one-shot download, and how far ahead of other ways.
///
/// Pages are loaded by real programs over real kernels. The link between them is emulated: its rate, delay, queue and
/// losses are the profile's. Making such networks needs root or unprivileged user namespaces.
#[derive(Debug, Parser)]
#[command(name = "longhaul-bench", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Loads pages over links through systems, side by side, and compares each load with the ideal protocol
    Pages(Box<PagesArgs>),
    /// Measures bulk transfers, bundles, outages and fairness of the transport beside kernel TCP and QUIC
    Transport(TransportArgs),
    /// Transcodes pictures at each level, and measures bytes and nearness beside other encoders
    Images(ImagesArgs),
    /// Codes texts of pages with each coder, and sets what the product chooses beside the best in hindsight
    Codec(CodecArgs),
    /// Makes one self-contained HTML report of results files
    Report(ReportArgs),
    /// Lists links, pages and systems
    List(ListArgs),
    /// One load in a network of its own: the command starts itself so
    #[command(hide = true)]
    Worker,
}

/// `pages`.
#[derive(Clone, Debug, Args)]
pub struct PagesArgs {
    /// Links: names of profiles, or `trace:FILE` for FILE.down and FILE.up
    #[arg(long, required = true, value_delimiter = ',')]
    pub link: Vec<String>,
    /// A TOML file with links of your own
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// `reference` for all reference pages, names of them, a folder of WARC files, or FOLDER:NAME for one of them
    #[arg(long, required = true, value_delimiter = ',')]
    pub pages: Vec<String>,
    /// The browser
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Loader::Model])]
    pub loader: Vec<Loader>,
    /// The systems: see `longhaul-bench list`
    #[arg(long, value_delimiter = ',', default_value = "direct,longhaul")]
    pub system: Vec<String>,
    /// What is held when a load begins
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [State::Cold])]
    pub state: Vec<State>,
    /// Under which scheme the loads of recorded pages begin
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ReplayScheme::Recorded])]
    pub scheme: Vec<ReplayScheme>,
    /// Image quality that Longhaul is asked for
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageLevel::Original])]
    pub image_level: Vec<ImageLevel>,
    /// What runs through the same system meanwhile
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Beside::Nothing])]
    pub beside: Vec<Beside>,
    /// Repetitions of each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Loads side by side, each in a network of its own [default: 8 below 1 Mbit/s with model and 4 with chromium; 1 above 10 Mbit/s; else 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Where the results go; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: PathBuf,
    /// Keeps the rows that FILE has, and measures only those that are missing
    #[arg(long)]
    pub resume: bool,
    /// Seed of the links' draws and of the order of loads
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Whether rows keep their waterfall and curves
    #[arg(long, value_enum, default_value_t = DetailRows::First)]
    pub detail: DetailRows,
    /// Has Chromium write a PNG of each loaded page to this folder, and compares those of all systems with those of `direct`
    #[arg(long, value_name = "FOLDER")]
    pub screenshots: Option<PathBuf>,
    /// Longest load [default: 12 times the ideal and two minutes, at most an hour]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub limit: Option<Duration>,
    /// The Internet behind the gateway.
    #[command(flatten)]
    pub internet: InternetArgs,
    /// How origins behave.
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// The network between gateway and origins.
#[derive(Clone, Debug, Args)]
pub struct InternetArgs {
    /// Loss between gateway and origins, percent of packets each way
    #[arg(long, value_delimiter = ',', default_values_t = [0.0], value_name = "PERCENT")]
    pub internet_loss: Vec<f64>,
    /// One-way delay between gateway and origins
    #[arg(long, value_parser = parse_duration, default_value = "20ms", value_name = "TIME")]
    pub internet_delay: Duration,
    /// Congestion control of kernel TCP at all three places: cubic, bbr, reno [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
}

/// How origins behave.
#[derive(Clone, Debug, Args)]
pub struct OriginArgs {
    /// Time that an origin takes to think before each answer
    #[arg(long, value_parser = parse_duration, default_value = "0ms", value_name = "TIME")]
    pub think_time: Duration,
    /// An origin closes a connection after so many answers, unannounced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub close_after: Option<u32>,
    /// An origin closes a connection after each answer, as HTTP/1.0 did
    #[arg(long)]
    pub no_keep_alive: bool,
    /// An origin closes a connection that has been idle for so long
    #[arg(long, value_parser = parse_duration, default_value = "60s", value_name = "TIME")]
    pub keep_alive_timeout: Duration,
}

/// `transport`.
#[derive(Clone, Debug, Args)]
pub struct TransportArgs {
    /// Links: names of profiles, or `trace:FILE` for FILE.down and FILE.up
    #[arg(long, required = true, value_delimiter = ',')]
    pub link: Vec<String>,
    /// A TOML file with links of your own
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// What to run beside Longhaul: cubic, bbr, quinn, quinn-tuned, quinn-bbr
    #[arg(long, value_delimiter = ',', default_value = "cubic,bbr,quinn")]
    pub against: Vec<String>,
    /// Experiments by the first words of their names, such as `bulk`, `bundle`, `outage of 5 s` [default: all that suit the link]
    #[arg(long, value_delimiter = ',')]
    pub experiment: Vec<String>,
    /// Where the results go; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: PathBuf,
    /// Repetitions of each experiment, each with draws of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Leaves the curves out of the results
    #[arg(long)]
    pub no_series: bool,
    /// Seed of the links' draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Experiments side by side [default: 8 below 1 Mbit/s, 4 up to 20 Mbit/s, else 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
}

/// `images`.
#[derive(Clone, Debug, Args)]
pub struct ImagesArgs {
    /// Pages whose pictures are taken: `reference`, names, a folder of WARC files, or FOLDER:NAME [default: reference, if no folder is given]
    #[arg(long, value_delimiter = ',')]
    pub pages: Vec<String>,
    /// A folder of pictures, with all folders in it
    #[arg(long, value_name = "DIR")]
    pub folder: Vec<PathBuf>,
    /// The levels
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low])]
    pub level: Vec<ImageLevel>,
    /// The efforts: quick, standard, checked
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ImageEffort::Standard, ImageEffort::Checked])]
    pub effort: Vec<ImageEffort>,
    /// What is done
    #[arg(long, value_enum, default_value_t = ImageTask::Compare)]
    pub task: ImageTask,
    /// Where the results go; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What `images` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageTask {
    /// Compares levels, efforts and other encoders.
    Compare,
    /// Prints the quality table of longhaul-transcode, made from these pictures.
    Fit,
    /// Prints the time that a picture takes on one core.
    Speed,
}

/// How much computing a transcoded picture is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageEffort {
    /// By the table, quickly.
    Quick,
    /// By the table.
    Standard,
    /// Measured and corrected.
    Checked,
}

/// `codec`.
#[derive(Clone, Debug, Args)]
pub struct CodecArgs {
    /// Pages whose texts are taken: `reference`, names, a folder of WARC files, or FOLDER:NAME; recorded editions serve as bases of the next ones
    #[arg(long, value_delimiter = ',', default_value = "reference")]
    pub pages: Vec<String>,
    /// How often each coder codes each text; the median of its times counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub runs: u32,
    /// Where the results go; an older file is replaced
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Results files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "FILE.html")]
    pub out: PathBuf,
    /// The tables once more, as Markdown
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,
    /// Throughput against queueing delay on recorded traces, as a drawing
    #[arg(long, value_name = "FILE.svg")]
    pub trace_plot: Option<PathBuf>,
}

/// `list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// A TOML file with links of your own
    #[arg(long, value_name = "FILE")]
    pub links_file: Option<PathBuf>,
    /// A folder of WARC files to list, too
    #[arg(long, value_name = "FOLDER")]
    pub pages: Option<PathBuf>,
}

/// Under which scheme the load of a recorded page begins. Generated pages have one of their own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayScheme {
    /// The one that it was recorded under: most sites' is https, which passes Longhaul as a tunnel.
    Recorded,
    /// http: Longhaul sees the page. What the page itself names by https stays so, and is answered.
    Http,
}

impl ReplayScheme {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Http => "http",
        }
    }
}

/// What else uses the hop while a page loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// The page is alone.
    Nothing,
    /// A download without end through the same system.
    Bulk,
    /// Requests without end of another device, which is in the gateway's network, to the page's own host.
    Requests,
}

/// Image quality, from untouched to none.
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
    /// Its name on the command line and in results.
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

/// Which rows keep the course of their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DetailRows {
    /// All: about 20 kB a row.
    All,
    /// The first run of each load.
    First,
    /// None.
    None,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
