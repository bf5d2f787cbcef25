//! `longhaul-bench transport`: the transport compared with kernel TCP and QUIC, each experiment in a separate
//! world.
use std::ops::ControlFlow;

use longhaul_bulk::{Experiment, Measured, System, bars, experiments_for};
use longhaul_netem::LinkDefinition;
use longhaul_world::sandbox::Sandbox;

use crate::{
    CommandError,
    cli::TransportArgs,
    environment::{BuildSource, environment},
    job::{Job, Reply, TransportJob},
    link::{LinkChoice, LinkError},
    run::{self, Progress, Store},
    worker::programs,
};

/// Runs the command. It succeeds when the run is complete, whatever the results.
///
/// # Errors
/// A link or system does not exist, the machine lacks a requirement, or the results cannot be written.
pub async fn transport(args: &TransportArgs, source: BuildSource) -> Result<(), CommandError> {
    let jobs = jobs(args)?;
    let mut sandbox = Sandbox::probe()?;
    for (_, job) in &jobs {
        if let Some(path) = job.link.path() {
            sandbox = sandbox.keep(path);
        }
    }
    let bin_dir = programs::bin_dir()?;
    let mut store = Store::open(&args.json, environment(source, args.seed, &bin_dir), false)?;
    let mut progress = Progress::new(jobs.len());
    let mut problems = Vec::new();
    let mut stop = None;
    {
        let work = run::side_by_side(
            jobs,
            |job| attempt(&sandbox, job),
            |(job, ended)| {
                let what = format!("{} {} {}", job.link.name(), job.system, job.experiment);
                match ended {
                    Ok(measured) => {
                        progress.step(&what);
                        for error in &measured.errors {
                            progress.say(&format!("{what}: {error}"));
                        }
                        let link = job.link.resolve().ok();
                        let bars = link
                            .map(|link| bars(&link.definition(), &measured))
                            .unwrap_or_default();
                        let series = if args.no_series {
                            Vec::new()
                        } else {
                            measured.series
                        };
                        store.add_transport(bars, series);
                    }
                    Err(Problem::Fatal(reason)) => {
                        stop = Some(CommandError::Worker(reason));
                        return ControlFlow::Break(());
                    }
                    Err(Problem::Experiment(reason)) => {
                        progress.step(&what);
                        progress.say(&format!("{what}: {reason}"));
                        problems.push(format!("{what}: {reason}"));
                    }
                }
                ControlFlow::Continue(())
            },
        );
        tokio::select! {
            () = work => {}
            _ = tokio::signal::ctrl_c() => stop = Some(CommandError::Interrupted),
        }
    }
    drop(progress);
    let results = store.finish()?;
    if let Some(error) = stop {
        return Err(error);
    }
    // The last line of the summary counts the bars.
    crate::print(&longhaul_report::text_summary(&results));
    if !problems.is_empty() {
        return Err(CommandError::Incomplete(problems));
    }
    Ok(())
}

/// Returns all experiments of all systems on all links, shuffled within a link.
fn jobs(args: &TransportArgs) -> Result<Vec<(u32, TransportJob)>, CommandError> {
    let mut systems = vec![System::Longhaul];
    for name in &args.against {
        let system: System = name
            .parse()
            .map_err(|error: longhaul_bulk::UnknownSystem| CommandError::Transport(error.to_string()))?;
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let links = args.link.iter().map(|name| {
        let choice = LinkChoice::new(name, args.links_file.as_deref());
        let link = choice.resolve()?.definition();
        Ok((choice, link))
    });
    let mut links = links.collect::<Result<Vec<_>, LinkError>>()?;
    links.sort_by_key(|(_, link)| link.rate_down().as_bps());
    let mut jobs = Vec::new();
    for (choice, link) in links {
        let weight = run::transport_weight(link.rate_down(), args.jobs);
        let mut of_link = Vec::new();
        for experiment in chosen(&link, &args.experiment)? {
            for run in 1..=args.runs {
                let seed = run::load_seed(args.seed, &experiment.to_string(), &link.name, run);
                let suited = systems.iter().filter(|system| experiment.suits(**system));
                of_link.extend(suited.map(|system| {
                    let job = TransportJob {
                        link: choice.clone(),
                        system: *system,
                        experiment,
                        congestion: args.congestion.clone(),
                        seed,
                    };
                    (weight, job)
                }));
            }
        }
        run::shuffle(&mut of_link, args.seed);
        jobs.extend(of_link);
    }
    Ok(jobs)
}

/// Returns the experiments whose description begins with one of the names.
fn chosen(link: &LinkDefinition, names: &[String]) -> Result<Vec<Experiment>, CommandError> {
    let all = experiments_for(link);
    if names.is_empty() {
        return Ok(all);
    }
    let chosen: Vec<_> = all
        .iter()
        .filter(|experiment| {
            names
                .iter()
                .any(|name| experiment.to_string().starts_with(name.as_str()))
        })
        .copied()
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = all.iter().map(Experiment::to_string).collect();
        return Err(CommandError::Transport(format!(
            "no experiment of {} begins with {}; existing experiments are: {}",
            link.name,
            names.join(" or "),
            known.join("; ")
        )));
    }
    Ok(chosen)
}

/// Reason of an experiment without figures.
enum Problem {
    /// Other experiments would fail, too.
    Fatal(String),
    /// Only this experiment failed.
    Experiment(String),
}

async fn attempt(sandbox: &Sandbox, job: TransportJob) -> (TransportJob, Result<Measured, Problem>) {
    let work = Job::Transport(Box::new(job.clone()));
    let ended = match run::run_job(sandbox, &work).await {
        Ok(Reply::Measured(measured)) => Ok(*measured),
        Ok(Reply::Failed { reason, fatal: true }) => Err(Problem::Fatal(reason)),
        Ok(Reply::Failed { reason, fatal: false }) => Err(Problem::Experiment(reason)),
        Ok(Reply::Loaded { .. } | Reply::Visited { .. }) => Err(Problem::Experiment(
            "the worker replied to another job".to_owned(),
        )),
        Err(error) => Err(Problem::Experiment(error.to_string())),
    };
    (job, ended)
}
