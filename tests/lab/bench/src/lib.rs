//! The command `longhaul-bench`: comparison of page loads with the ideal one-shot download
//! (docs/BENCHMARKING.md).
//!
//! The command plans loads and starts a worker process for each ([`run`]). A [`worker`] builds a world of
//! three network namespaces, starts origins and the system under comparison in it, loads the page and replies
//! with a row.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cli;
pub mod codec;
pub mod environment;
pub mod images;
pub mod job;
pub mod link;
pub mod loader;
pub mod pages;
pub mod papers;
pub mod run;
mod scout;
pub mod select;
pub mod state;
mod statistics;
pub mod switches;
pub mod system;
pub mod transport;
pub mod visits;
pub mod worker;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use cli::{Cli, Command};
use environment::BuildSource;

/// Exit code of a run that Ctrl-C ended, as in shells.
const INTERRUPTED: u8 = 130;

/// Errors of the command.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A link is unknown or invalid.
    #[error(transparent)]
    Link(#[from] link::LinkError),
    /// A page is unknown or invalid.
    #[error(transparent)]
    Select(#[from] select::SelectError),
    /// A system is unknown.
    #[error(transparent)]
    System(#[from] system::UnknownSystem),
    /// A system of the transport's comparison is unknown.
    #[error("{0}")]
    Transport(String),
    /// A loss ratio is out of range.
    #[error("--internet-loss {0}: a percentage from 0 to below 100 is expected")]
    Loss(f64),
    /// A technique is unknown.
    #[error("--without, --only: {0}")]
    Technique(#[from] longhaul_types::ParseTechniqueError),
    /// Only generated pages can be rewritten.
    #[error("--system url-rewriting loads generated pages only: scripts of recorded pages build addresses")]
    NotRewritable,
    /// No system remembers a network.
    #[error("--remembered-from needs --system longhaul-remembered")]
    NothingRemembered,
    /// The system has no agent that compares.
    #[error(
        "visits --system {0}: its agent compares nothing here; use longhaul, longhaul-unknown, longhaul-tls or longhaul-quic"
    )]
    NothingCompared(system::System),
    /// The system does not support the loader.
    #[error("--loader {loader} does not support --system {system}: {reason}")]
    Refused {
        /// The system.
        system: system::System,
        /// The browser.
        loader: loader::Loader,
        /// The reason.
        reason: &'static str,
    },
    /// A program is missing.
    #[error(transparent)]
    Program(#[from] worker::programs::ProgramError),
    /// The machine does not allow worlds.
    #[error(transparent)]
    Sandbox(#[from] longhaul_world::sandbox::SandboxError),
    /// The worker was not started in a sandbox.
    #[error(transparent)]
    Enter(#[from] longhaul_world::sandbox::EnterError),
    /// The results file could not be read or written.
    #[error(transparent)]
    Store(#[from] run::StoreError),
    /// Screenshots could not be stored.
    #[error(transparent)]
    Picture(#[from] pages::PictureError),
    /// A worker reported an error that all other workers would have, too.
    #[error("{0}")]
    Worker(String),
    /// The worker's own subcommand was called by a user.
    #[error("only longhaul-bench itself starts `worker`: {0}")]
    WorkerInput(io::Error),
    /// Pictures could not be measured.
    #[error(transparent)]
    Images(#[from] images::ImagesError),
    /// Coders could not be measured.
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
    /// A report could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The event loop could not be started.
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    /// Ctrl-C was pressed. Complete rows are kept.
    #[error("interrupted")]
    Interrupted,
    /// Some loads have no row.
    #[error("{} loads have no result:\n  {}", .0.len(), .0.join("\n  "))]
    Incomplete(Vec<String>),
}

/// Runs the command line of a program that was built from `source`.
pub fn main(source: BuildSource) -> ExitCode {
    let cli = Cli::of_process(source);
    match run_command(&cli.command, source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            say(&format!("longhaul-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: &Command, source: BuildSource) -> Result<(), CommandError> {
    // The worker creates its own runtime, because each namespace has its own threads.
    if matches!(command, Command::Worker) {
        return worker::work();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CommandError::Runtime)?;
    match command {
        Command::Pages(args) => runtime.block_on(pages::pages(args, source)),
        Command::Visits(args) => runtime.block_on(visits::visits(args)),
        Command::Transport(args) => runtime.block_on(transport::transport(args, source)),
        Command::Images(args) => images::images(args, source),
        Command::Codec(args) => codec::codec(args, source),
        Command::Papers(args) => runtime.block_on(papers::papers(args, source)),
        Command::Report(args) => report(args),
        Command::Scout(args) => scout::scout(args),
        Command::List(args) => list(args),
        Command::Worker => Ok(()),
    }
}

fn report(args: &cli::ReportArgs) -> Result<(), CommandError> {
    let named = args
        .files
        .iter()
        .map(|path| Ok((path.display().to_string(), run::load_results(path)?)));
    let results = named.collect::<Result<Vec<_>, run::StoreError>>()?;
    print_targets(&longhaul_report::targets(&results));
    write(&args.out, &longhaul_report::html(&results))?;
    if let Some(path) = &args.markdown {
        write(path, &longhaul_report::markdown(&results))?;
    }
    if let Some(path) = &args.trace_plot {
        write(path, &longhaul_report::trace_plot(&results))?;
    }
    say(&format!("report in {}", args.out.display()));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    fs::write(path, text).map_err(|source| CommandError::Report {
        path: path.to_owned(),
        source,
    })
}

/// Prints the targets that these results decide, and the undecided ones.
fn print_targets(targets: &[longhaul_report::Target]) {
    let decided = targets
        .iter()
        .filter(|target| target.verdict != longhaul_report::Verdict::NotMeasured);
    for target in decided {
        let longhaul_report::Target {
            what,
            goal,
            measured,
            verdict,
            ..
        } = target;
        print(&format!(
            "{:<6}  {what}: {measured} (target: {goal})\n",
            verdict.word()
        ));
    }
    let open = targets
        .iter()
        .filter(|target| target.verdict == longhaul_report::Verdict::NotMeasured);
    let open: Vec<_> = open.map(|target| target.what.as_str()).collect();
    if !open.is_empty() {
        print(&format!("undecided by these results: {}\n", open.join("; ")));
    }
}

fn list(args: &cli::ListArgs) -> Result<(), CommandError> {
    print("links\n");
    for link in link::known(args.links_file.as_deref())? {
        print(&format!("  {link}\n"));
    }
    print("reference pages (objects, bytes, hosts)\n");
    for name in longhaul_pages::reference::names() {
        if let Some(page) = longhaul_pages::reference::named(name) {
            print(&format!("  {}\n", described(&page)));
        }
    }
    if let Some(folder) = &args.pages {
        print(&format!(
            "recorded pages in {} (answers, bytes, hosts)\n",
            folder.display()
        ));
        let pages = longhaul_pages::recorded::folder(folder).map_err(select::SelectError::from)?;
        for page in pages {
            let note = if page.html_only() { "  HTML only" } else { "" };
            print(&format!("  {}{note}\n", described(&page)));
        }
    }
    print("systems\n");
    for system in system::System::ALL {
        print(&format!("  {system}\n"));
    }
    Ok(())
}

fn described(page: &longhaul_pages::Page) -> String {
    let facts = page.facts();
    format!(
        "{:<18} {:>4} {:>9} {:>3}",
        page.name(),
        facts.objects,
        facts.bytes,
        facts.hosts
    )
}

/// Prints results. A closed reader (`| head`) is no error.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Prints a message to the user, separate from the results.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
