//! `longhaul-bench visits`: what an agent in use finds out about itself, by the visits that it makes directly
//! (decision 74).
use std::{fmt::Write as _, fs, path::Path};

use longhaul_world::sandbox::Sandbox;
use serde::Serialize;
use serde_json::Value;

use crate::{
    CommandError,
    cli::VisitsArgs,
    job::{HoldOut, Job, LoadJob, PageChoice, Reply, Visited, VisitsJob},
    link::LinkChoice,
    loader::Loader,
    run, select,
    statistics::quantile,
    system::System,
    worker::programs,
};

/// The visits of one system.
#[derive(Debug, Serialize)]
struct OfSystem {
    system: System,
    visits: Vec<Visited>,
    hold_out: Value,
}

/// Runs the command.
///
/// # Errors
/// A link, page or system does not exist or compares nothing, the machine lacks a requirement, or the results cannot be
/// written.
pub async fn visits(args: &VisitsArgs) -> Result<(), CommandError> {
    let systems = args.system.iter().map(|name| Ok(name.parse()?));
    let systems = systems.collect::<Result<Vec<System>, CommandError>>()?;
    if let Some(system) = systems.iter().find(|system| !compares(**system)) {
        return Err(CommandError::NothingCompared(*system));
    }
    let pages = select::pages(&args.pages)?;
    let link = LinkChoice::new(&args.link, args.links_file.as_deref());
    link.resolve()?;
    let bin_dir = programs::bin_dir()?;
    for program in ["longhaul-agent", "longhaul-gateway"] {
        programs::ours(&bin_dir, program)?;
    }
    if args.loader == Loader::Chromium {
        programs::installed("chromium")?;
    }
    let mut sandbox = Sandbox::probe()?.keep(&bin_dir);
    for path in link
        .path()
        .into_iter()
        .chain(pages.iter().filter_map(PageChoice::path))
    {
        sandbox = sandbox.keep(path);
    }
    let mut all = Vec::new();
    for system in systems {
        let job = job(args, system, &link, &pages, &bin_dir);
        let work = Job::Visits(Box::new(job));
        let ended = tokio::select! {
            ended = run::run_job(&sandbox, &work) => ended,
            _ = tokio::signal::ctrl_c() => return Err(CommandError::Interrupted),
        };
        let of_system = match ended {
            Ok(Reply::Visited { visits, hold_out }) => OfSystem {
                system,
                visits,
                hold_out,
            },
            Ok(Reply::Failed { reason, .. }) => return Err(CommandError::Worker(reason)),
            Ok(Reply::Loaded { .. } | Reply::Measured(_)) => {
                return Err(CommandError::Worker(
                    "the worker replied to another job".to_owned(),
                ));
            }
            Err(error) => return Err(CommandError::Worker(error.to_string())),
        };
        crate::print(&summary(&of_system));
        all.push(of_system);
    }
    match &args.json {
        Some(path) => write(path, &all),
        None => Ok(()),
    }
}

/// True if the system has an agent that may go direct.
fn compares(system: System) -> bool {
    matches!(
        system,
        System::Longhaul | System::LonghaulUnknown | System::LonghaulTls | System::LonghaulQuic
    )
}

fn job(
    args: &VisitsArgs,
    system: System,
    link: &LinkChoice,
    pages: &[PageChoice],
    bin_dir: &Path,
) -> VisitsJob {
    let visits = usize::try_from(args.visits).unwrap_or(usize::MAX);
    let mut order: Vec<usize> = (0..pages.len()).cycle().take(visits).collect();
    run::shuffle(&mut order, args.seed);
    let first = pages.first().cloned();
    let page = first.unwrap_or(PageChoice::Reference(String::new()));
    let how = (system, args.loader, args.scheme);
    let load = LoadJob {
        limit: args.limit,
        hold_out: HoldOut::OneIn50,
        ..LoadJob::cold(page, link.clone(), how, args.seed, bin_dir.to_owned())
    };
    VisitsJob {
        load,
        pages: pages.to_vec(),
        order,
    }
}

/// What the visits and the agent say, in lines.
fn summary(of_system: &OfSystem) -> String {
    let OfSystem {
        system,
        visits,
        hold_out,
    } = of_system;
    let times = |direct: bool| {
        let chosen = visits.iter().filter(|visit| visit.is_direct == direct);
        let mut times: Vec<f64> = chosen.filter_map(|visit| visit.time_s).collect();
        match times.len() {
            0 => "none".to_owned(),
            count => format!("{count}, {:.2} s in the median", quantile(&mut times, 0.5)),
        }
    };
    let failed: usize = visits.iter().map(|visit| visit.failed).sum();
    let mut text = format!(
        "{system}: {} visits; through the gateway: {}; with direct requests: {}; failed objects: {failed}\n",
        visits.len(),
        times(false),
        times(true),
    );
    for kind in hold_out.as_array().into_iter().flatten() {
        let number = |name: &str| kind[name].as_f64();
        let ratio = |name: &str| number(name).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let count = |name: &str| kind[name].as_u64().unwrap_or(0);
        let _ = writeln!(
            text,
            "  {}: {} visits, {} held out, {} comparisons; regression rate {} (time / direct time: median {}, p95 {}){}",
            kind["kind"].as_str().unwrap_or("?"),
            count("visits"),
            count("held_out"),
            count("comparisons"),
            ratio("slower"),
            ratio("median"),
            ratio("p95"),
            if kind["is_bypassed"] == true {
                "; visits go direct now"
            } else {
                ""
            },
        );
    }
    text
}

fn write(path: &Path, all: &[OfSystem]) -> Result<(), CommandError> {
    let report = |source| CommandError::Report {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_string(all).map_err(|error| report(error.into()))?;
    fs::write(path, text).map_err(report)
}
