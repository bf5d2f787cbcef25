//! The command line.
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use url::Url;

use longhaul_demo::{Link, Override};
use longhaul_types::ByteCount;

/// Longhaul: web pages over slow, long or lossy last hops.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = 110,
    arg_required_else_help = true
)]
pub struct CliArgs {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

impl CliArgs {
    /// Parses the arguments of this process; prints help, version or a mistake, and ends the process, where those
    /// ask for it. `commit` is `LONGHAUL_COMMIT` of the build, which only programs read: a library that reads it
    /// is compiled again for each commit.
    pub fn of_process(commit: Option<&str>) -> Self {
        let version = longhaul_types::version_text(env!("CARGO_PKG_VERSION"), commit);
        let matches = Self::command().version(version).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Switch Longhaul on: enrol this device, set up its browsers and start the agent
    #[command(after_help = UP_HELP)]
    Up(Box<UpArgs>),
    /// Switch Longhaul off: undo all changes of `up`; keys and caches stay
    #[command(after_help = DOWN_HELP)]
    Down(DownArgs),
    /// Undo all changes of `up` and remove this device's keys, certificate authority and caches
    #[command(after_help = DOWN_HELP)]
    Uninstall(DownArgs),
    /// Run a gateway and an agent on this machine, to try Longhaul out
    #[command(after_long_help = DEMO_HELP)]
    Demo(Box<DemoArgs>),
    /// Make a key pair
    #[command(after_help = KEYGEN_HELP)]
    Keygen(KeygenArgs),
    /// Enrol this device with a gateway
    #[command(after_help = ENROLL_HELP)]
    Enroll(EnrollArgs),
    /// Show enrolment, agent, hop and browsers of this device
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Find what is wrong on this device, and the command that mends it
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Measure the link now: a page directly and through Longhaul
    #[command(after_help = SPEED_HELP)]
    Speed(SpeedArgs),
}

/// `longhaul up`
#[derive(Args, Debug)]
pub struct UpArgs {
    /// The line that the gateway's operator gave you, if this device is not enrolled; - reads it from
    /// standard input
    pub line: Option<String>,
    /// Show the plan and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Apply the plan without questions; steps for browsers that run are left out
    #[arg(long)]
    pub yes: bool,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Sites whose https is accelerated; the gateway's operator can read their traffic [default: as set, else
    /// off]
    #[arg(long, value_name = "SITES")]
    pub https: Option<HttpsChoice>,
    /// With --https list: a host whose https is accelerated, with its subdomains; may be repeated
    #[arg(long, value_name = "HOST", num_args = 1..)]
    pub site: Vec<String>,
    /// Leave the settings of browsers as they are
    #[arg(long)]
    pub no_browser: bool,
    /// Set up the browsers of all users of this machine by policies, instead of those of this user; needs root
    #[arg(long, conflicts_with = "no_browser")]
    pub all_users: bool,
    /// Let all programs of this machine trust the certificate authority, as curl and git do then; needs root
    #[arg(long)]
    pub system_store: bool,
    /// Let programs in shells use the agent, by variables of the environment
    #[arg(long)]
    pub shells: bool,
    /// The directories to work on
    #[command(flatten)]
    pub places: PlaceArgs,
}

/// Sites whose https is accelerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HttpsChoice {
    /// None: every https connection is a tunnel
    Off,
    /// All except the built-in exclusions
    All,
    /// The hosts of --site
    List,
}

/// `longhaul down` and `longhaul uninstall`
#[derive(Args, Debug)]
pub struct DownArgs {
    /// Show what would be undone and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Ask no questions; changes of browsers that run are left out
    #[arg(long)]
    pub yes: bool,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// The directories to work on
    #[command(flatten)]
    pub places: PlaceArgs,
}

/// Directories of the commands that change the machine.
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Where the agent keeps its state [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR", env = "LONGHAUL_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// The user's home
    #[arg(long, value_name = "DIR", hide = true)]
    pub home: Option<PathBuf>,
    /// The system's root
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

/// `longhaul demo`
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Load one page with its sub-resources, print what it cost, and exit: 0 only if nothing failed
    #[arg(long, value_name = "URL", num_args = 0..=1, value_parser = parse_url)]
    pub once: Option<Option<Url>>,
    /// The page of --once, if it does not follow --once directly
    #[arg(value_name = "URL", requires = "once", value_parser = parse_url)]
    pub page: Option<Url>,
    /// Print the result of --once as one line of JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Let the gateway find NAME at ADDR instead of asking the DNS; may be repeated
    ///
    /// NAME is a host, *.SUFFIX or *, with :PORT if the entry applies to that port only. ADDR is an IP
    /// address, with :PORT to change the port. The address may be one that the gateway otherwise refuses,
    /// such as 127.0.0.1.
    #[arg(long, value_name = "NAME=ADDR")]
    pub resolve: Vec<Override>,
    /// Trust the certificate authorities in this PEM file, too
    #[arg(long, value_name = "FILE")]
    pub extra_ca: Option<PathBuf>,
    /// Replay the pages recorded in this WARC file: every host is answered from it, nothing from the Internet
    #[arg(long, value_name = "FILE")]
    pub warc: Option<PathBuf>,
    /// Emulate a slow link between agent and gateway (gprs-3+1, edge, umts-384, lte, geo-sat, ...; none), and
    /// an equal one without Longhaul, to compare them
    #[arg(long, value_name = "PROFILE")]
    pub link: Option<Link>,
}

/// `longhaul keygen`
#[derive(Args, Debug)]
pub struct KeygenArgs {
    /// Write the secret key to this new file, readable by you only; it is never overwritten
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `longhaul enroll`
#[derive(Args, Debug)]
pub struct EnrollArgs {
    /// The line that the gateway's operator gave you; - reads it from standard input
    pub line: String,
    /// Where the agent keeps its state [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR", env = "LONGHAUL_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Give up the enrolment with another gateway
    #[arg(long)]
    pub replace: bool,
}

/// `longhaul status`
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Where the agent keeps its state [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR", env = "LONGHAUL_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Print one line of JSON: the agent's status.json, and what this command adds
    #[arg(long)]
    pub json: bool,
}

/// `longhaul doctor`
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print the report as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// A page that answers 204, to look for the login page of a network; it is requested only while the gateway
    /// does not answer [default: port 80 of the gateway's host]
    #[arg(long, value_name = "URL", value_parser = parse_portal_url)]
    pub portal_url: Option<Url>,
    /// The directories to work on
    #[command(flatten)]
    pub places: PlaceArgs,
}

/// `longhaul speed`
#[derive(Args, Debug)]
pub struct SpeedArgs {
    /// The page to load [default: the page that the agent has loaded last]
    #[arg(value_parser = parse_url)]
    pub url: Option<Url>,
    /// Number of loads over each way
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub loads: u32,
    /// Bytes that all loads may take together
    #[arg(long, value_name = "SIZE", default_value = "30MB", value_parser = parse_size)]
    pub limit: ByteCount,
    /// Load without a question
    #[arg(long)]
    pub yes: bool,
    /// Measure also in a network in which every byte costs
    #[arg(long)]
    pub metered: bool,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Where the agent keeps its state [default: ~/.local/state/longhaul-agent]
    #[arg(long, value_name = "DIR", env = "LONGHAUL_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
}

fn parse_size(text: &str) -> Result<ByteCount, String> {
    text.parse()
        .map_err(|error: longhaul_types::ParseUnitError| error.to_string())
}

/// Parses the URL of the look for a captive portal. A portal cannot answer in the place of an https server.
fn parse_portal_url(text: &str) -> Result<Url, String> {
    match parse_url(text)? {
        url if url.scheme() == "http" => Ok(url),
        _ => Err("only a page of http can show a login page of the network".to_owned()),
    }
}

/// Parses a page's URL; the most common mistake is a missing scheme.
fn parse_url(text: &str) -> Result<Url, String> {
    let complete = || {
        format!(
            "write the whole URL, such as http://{}/",
            text.trim_end_matches('/')
        )
    };
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        Ok(url) if text.starts_with(&format!("{}://", url.scheme())) => Err(format!(
            "`{}` pages cannot be loaded, only http and https",
            url.scheme()
        )),
        Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase) => Err(complete()),
        Err(error) => Err(error.to_string()),
    }
}

const UP_HELP: &str = "\
Examples:
  longhaul up longhaul1:AbC...     enrol, show the plan, ask, apply
  longhaul up --dry-run            show the plan
  longhaul up --yes --https list --site example.org wiki.example.net

Every change is written to a journal before it is made, and `longhaul down` undoes it exactly. INSTALL.md (in
/usr/share/doc/longhaul, and in docs of the source) lists all changes, and how to make them by hand. Running it again is
harmless: it changes what differs from the plan.

Exit status: 0 done, 1 something failed (it says what, and what to do), 2 wrong usage.";

const DOWN_HELP: &str = "\
Files that were changed since get back only what `longhaul up` changed in them. What cannot be undone stays in the
journal and is listed with the reason and the command that undoes it by hand; run the command again afterwards.

Exit status: 0 done, 1 something is left, 2 wrong usage.";

const DEMO_HELP: &str = "\
Examples:
  longhaul demo                                    start, then point a browser at the proxy that it names
  longhaul demo --link umts-384                    the same page directly and through Longhaul, side by side, over a slow
                                                   link that the demonstration emulates
  longhaul demo --once                             load the built-in page and say what it cost
  longhaul demo --once https://example.org/        load a page of the web
  longhaul demo --once http://shop.test/ --resolve shop.test=127.0.0.1:8080
                                                   load a page of a server on this machine
  longhaul demo --once --json --warc page.warc.gz  load a recorded page

Gateway and agent are looked for beside this program; LONGHAUL_BIN_DIR names another directory. Their keys and state
are in a temporary directory and go with the demonstration. Ctrl-C, SIGTERM and SIGHUP end all of it. SIGKILL cannot
be handled: it leaves longhaul-gateway and longhaul-agent running, and the directory longhaul-demo-* in TMPDIR.

With --link, two equal links are emulated in this program, without root: one carries the datagrams between agent and
gateway, the other the connections of a second proxy, without Longhaul. The agent has no link profile and measures the
link. What the emulation leaves out is in favour of the direct way: it has no TCP slow start, no headers of TCP and IP,
and no response to loss; round trips for names, connections and TLS, and all bytes of HTTP cost what they cost on such a
link.

The result of --once: url, objects, failed, bytes_down and bytes_up (on the hop between agent and gateway, headers
included), origin_bytes (from the web to the gateway), time_s, time_direct_s (only with --link: the same page without
Longhaul; null if something failed), ideal_gprs_s and ideal_umts_s (the ideal one-shot download of the page, text as by
gzip -9, on those links), savings (bytes, in total and by cause), errors. Scripts are fetched but not run. With --warc,
objects that the recording does not have are not counted; everything else must arrive as it was recorded.

Exit status: 0 all arrived, 1 something failed, 2 wrong usage.";

const STATUS_HELP: &str = "\
Figures of the link are `not measured` (null in JSON) until there is a measurement.

Exit status: 0 the agent runs and the gateway answers or may still answer, 1 it does not work (not enrolled, no agent,
or something is wrong with the hop; `longhaul doctor` names the cause), 2 wrong usage.";

const DOCTOR_HELP: &str = "\
Every check is made on its own, changes nothing, and works without an agent and without a network. Each finding comes with
one command that mends it. INSTALL.md (in /usr/share/doc/longhaul, and in docs of the source) lists all findings in its
section 4. It takes a few seconds at most, and half a minute where no agent runs and the gateway does not answer.

Traffic goes to the gateway only. If no agent runs, a session with the gateway is opened and closed. While the gateway does
not answer, one plain HTTP request to port 80 of the gateway's host looks for a login page of the network (captive portal);
--portal-url names another page.

Exit status: 0 healthy, 1 findings, 2 wrong usage.";

const SPEED_HELP: &str = "\
Examples:
  longhaul speed                          the page that the agent has loaded last
  longhaul speed http://example.org/      another page
  longhaul speed --yes --json URL         for programs

The page and what it refers to is loaded N times directly and N times through the agent, alternately. How many bytes this
takes is said first, and asked; in a metered network nothing is loaded without --metered. Scripts are fetched but not run.
Each load begins without connections and cookies. The agent's cache is not emptied: what its first load has brought, its
later ones find there.

The ideal is the page in one piece (text as by gzip -9) at the rate that the session has shown, after one round trip. The
queue is the longest smoothed round-trip time during the loads, less the shortest round-trip time.

Exit status: 0 all arrived, 1 something failed or nothing was loaded, 2 wrong usage.";

const KEYGEN_HELP: &str = "\
Examples:
  longhaul keygen --out device.key    secret key to a new file, public key to the terminal
  longhaul keygen                     both to the terminal

The operator of a gateway admits the device with: longhaul-gateway device add --name NAME PUBLIC-KEY";

const ENROLL_HELP: &str = "\
Examples:
  longhaul enroll longhaul1:AbC...    as the gateway's operator sent it (made with: longhaul-gateway invite)
  longhaul enroll - < invite.txt      from a file, so that the line does not show in the list of processes

The line holds this device's secret key: keep it to yourself.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn once_takes_a_url_or_none() {
        let parse = |line: &str| CliArgs::try_parse_from(line.split(' '));
        let once = |line: &str| {
            let command = parse(line).unwrap().command;
            let Command::Demo(demo) = command else {
                panic!("{command:?}");
            };
            let DemoArgs { once, page, .. } = *demo;
            once.map(|url| url.or(page).map(String::from))
        };
        assert_eq!(once("longhaul demo"), None);
        assert_eq!(once("longhaul demo --once"), Some(None));
        assert_eq!(once("longhaul demo --once --json --warc x"), Some(None));
        assert_eq!(
            once("longhaul demo --once http://a.test/b --json"),
            Some(Some("http://a.test/b".to_owned()))
        );
        assert_eq!(
            once("longhaul demo --once --json http://a.test/b"),
            Some(Some("http://a.test/b".to_owned()))
        );
        for wrong in [
            "longhaul demo --json",
            "longhaul demo --once a.test",
            "longhaul demo --once a.test:80",
            "longhaul demo --once ftp://a.test/",
            "longhaul demo --once http://",
            "longhaul demo --resolve a.test",
            "longhaul demo --link carrier-pigeon",
            "longhaul enroll",
            "longhaul up --https some",
            "longhaul up --no-browser --all-users",
            "longhaul doctor --portal-url https://a.test/",
            "longhaul speed a.test",
            "longhaul speed --loads 0",
            "longhaul speed --limit 3",
            "longhaul fly",
        ] {
            assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }
}
