//! `longhaul-bench pages`: plan and execution of page loads.
mod attempt;
mod complete;
mod conditions;
mod pictures;
mod requirements;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::PathBuf,
};

use longhaul_report::Row;
use longhaul_world::sandbox::Sandbox;

use crate::{
    CommandError,
    cli::{PagesArgs, ReplayScheme},
    environment::{BuildSource, environment},
    job::{HoldOut, LoadJob, PageChoice},
    link::{Link, LinkChoice},
    loader::Loader,
    run::{self, LoadKey, Progress, Store},
    select,
    switches::{self, Switches},
    system::System,
    worker::{programs, row},
};

use attempt::Loaded;
use conditions::{internet, keeps_detail, origin, picture, remembered_from, schemes};
pub use pictures::PictureError;
use pictures::Pictures;
use requirements::require_programs;

/// Runs the command.
///
/// # Errors
/// An argument refers to something unknown or contradicts another one, the machine lacks a requirement, or
/// the results cannot be written.
pub async fn pages(args: &PagesArgs, source: BuildSource) -> Result<(), CommandError> {
    let run = Run::prepare(args)?;
    let pictures = args.screenshots.as_deref().map(Pictures::open).transpose()?;
    let environment = environment(source, args.seed, &run.bin_dir);
    let mut store = Store::open(&args.json, environment, args.resume)?;
    let mut jobs = run.jobs(args);
    let all = jobs.len();
    jobs.retain(|job| !store.has(&LoadKey::of(&row::begun(job))));
    if jobs.len() < all {
        crate::say(&format!(
            "{} of {all} loads are in {} already",
            all - jobs.len(),
            args.json.display()
        ));
    }
    let interrupted = {
        let work = measure(&run, jobs, args, &mut store, pictures.as_ref());
        tokio::select! {
            done = work => Some(done?),
            _ = tokio::signal::ctrl_c() => None,
        }
    };
    if let Some(pictures) = &pictures {
        pictures.compare(store.rows_mut());
    }
    let results = store.finish()?;
    let Some(problems) = interrupted else {
        let kept = results.rows.len();
        let file = args.json.display();
        crate::say(&format!(
            "interrupted: {file} has {kept} of {all} loads; continue with --resume"
        ));
        return Err(CommandError::Interrupted);
    };
    crate::print(&longhaul_report::text_summary(&results));
    crate::print(&longhaul_report::text_times(&results));
    crate::print(&longhaul_report::text_late(&results));
    crate::print(&longhaul_report::text_replays(&results));
    crate::print(&longhaul_report::text_pictures(&results));
    crate::say(&format!("{} rows in {}", results.rows.len(), args.json.display()));
    if problems.is_empty() {
        return Ok(());
    }
    Err(CommandError::Incomplete(problems))
}

/// Resolved arguments of a run.
struct Run {
    links: Vec<(LinkChoice, Link)>,
    pages: Vec<PageChoice>,
    systems: Vec<System>,
    switches: Vec<Switches>,
    bin_dir: PathBuf,
    sandbox: Sandbox,
}

impl Run {
    fn prepare(args: &PagesArgs) -> Result<Self, CommandError> {
        let links = args.link.iter().map(|name| {
            let choice = LinkChoice::new(name, args.links_file.as_deref());
            let link = choice.resolve()?;
            Ok((choice, link))
        });
        let links = links.collect::<Result<Vec<_>, CommandError>>()?;
        let pages = select::pages(&args.pages)?;
        let systems = args
            .system
            .iter()
            .map(|name| Ok(name.parse()?))
            .collect::<Result<Vec<System>, CommandError>>()?;
        if let Some(name) = &args.remembered_from {
            LinkChoice::new(name, args.links_file.as_deref()).resolve()?;
            if !systems.contains(&System::LonghaulRemembered) {
                return Err(CommandError::NothingRemembered);
            }
        }
        let has_recording = pages
            .iter()
            .any(|page| matches!(page, PageChoice::Recorded { .. }));
        if has_recording && systems.iter().any(|system| system.rewrites_urls()) {
            return Err(CommandError::NotRewritable);
        }
        for loss in &args.internet.internet_loss {
            if !(0.0..100.0).contains(loss) {
                return Err(CommandError::Loss(*loss));
            }
        }
        for system in &systems {
            for loader in &args.loader {
                if let Some(reason) = system.refuses(*loader) {
                    return Err(CommandError::Refused {
                        system: *system,
                        loader: *loader,
                        reason,
                    });
                }
            }
        }
        if args.screenshots.is_some() && !args.loader.contains(&Loader::Chromium) {
            return Err(PictureError::NoBrowser.into());
        }
        let switches = switches::switches(args)?;
        let bin_dir = programs::bin_dir()?;
        require_programs(args, &systems, &bin_dir)?;
        let mut sandbox = Sandbox::probe()?.keep(&bin_dir);
        let of_links = links.iter().filter_map(|(choice, _)| choice.path());
        for path in of_links.chain(pages.iter().filter_map(PageChoice::path)) {
            sandbox = sandbox.keep(path);
        }
        Ok(Self {
            links,
            pages,
            systems,
            switches,
            bin_dir,
            sandbox,
        })
    }

    /// Returns all loads: the links from the slowest to the fastest, the loads of each link shuffled.
    fn jobs(&self, args: &PagesArgs) -> Vec<LoadJob> {
        let mut jobs = Vec::new();
        for (choice, link) in &self.links {
            let mut of_link = Vec::new();
            for loader in &args.loader {
                let mut of_loader = Vec::new();
                for run in 1..=args.runs {
                    for page in &self.pages {
                        of_loader.extend(self.loads(args, choice, *loader, page, run));
                    }
                }
                run::shuffle(&mut of_loader, args.seed);
                of_link.push(of_loader);
            }
            jobs.push((link.rate_down, of_link));
        }
        jobs.sort_by_key(|(rate, _)| rate.as_bps());
        jobs.into_iter()
            .flat_map(|(_, of_link)| of_link.into_iter().flatten())
            .collect()
    }

    /// Returns all loads of one page over one link with one browser.
    fn loads(
        &self,
        args: &PagesArgs,
        link: &LinkChoice,
        loader: Loader,
        page: &PageChoice,
        run: u32,
    ) -> Vec<LoadJob> {
        let mut loads = Vec::new();
        for ((system, switches), outstanding) in self.variants(args) {
            for state in &args.state {
                for level in &args.image_level {
                    for loss in &args.internet.internet_loss {
                        for beside in &args.beside {
                            let schemes = schemes(args, page).into_iter();
                            loads.extend(schemes.map(|scheme| LoadJob {
                                page: page.clone(),
                                link: link.clone(),
                                system,
                                state: *state,
                                loader,
                                scheme,
                                image_level: *level,
                                run,
                                seed: run::load_seed(args.seed, page.name(), link.name(), run),
                                internet: internet(args, *loss),
                                origin: origin(args),
                                remembered_from: remembered_from(args, system),
                                switches,
                                outstanding,
                                beside: *beside,
                                detail: keeps_detail(args, run),
                                picture: picture(args, loader),
                                limit: args.limit,
                                hold_out: HoldOut::Never,
                                bin_dir: self.bin_dir.clone(),
                                renamed: BTreeSet::new(),
                                expected: None,
                            }));
                        }
                    }
                }
            }
        }
        loads
    }

    /// Returns the systems with their switches and numbers of outstanding requests, as far as a system has them.
    fn variants(&self, args: &PagesArgs) -> Vec<((System, Switches), Option<u32>)> {
        let mut variants = Vec::new();
        for system in &self.systems {
            let switches = if system.is_longhaul() {
                self.switches.clone()
            } else {
                vec![Switches::default()]
            };
            let mut outstanding: Vec<_> = args.outstanding.iter().copied().map(Some).collect();
            if outstanding.is_empty() || !system.is_pipelined() {
                outstanding = vec![None];
            }
            for switches in switches {
                variants.extend(
                    outstanding
                        .iter()
                        .map(|outstanding| ((*system, switches), *outstanding)),
                );
            }
        }
        variants
    }
}

/// Loads without a row, with the reasons.
pub type Problems = Vec<String>;

async fn measure(
    run: &Run,
    mut jobs: Vec<LoadJob>,
    args: &PagesArgs,
    store: &mut Store,
    pictures: Option<&Pictures>,
) -> Result<Problems, CommandError> {
    let mut problems = Vec::new();
    let references = complete::references(run, &jobs, args, &mut problems).await?;
    jobs.retain_mut(|job| {
        let reference = references.get(&complete::load_kind(job));
        if let Some(reference) = reference {
            job.expected = Some(reference.delivered.clone());
            job.renamed = reference.renamed.clone();
        }
        reference.is_some()
    });
    let weights: BTreeMap<_, _> = run
        .links
        .iter()
        .map(|(choice, link)| (choice.name().to_owned(), link.rate_down))
        .collect();
    let mut progress = Progress::new(jobs.len());
    let weighted = jobs.into_iter().map(|job| {
        let rate = weights.get(job.link.name()).copied().unwrap_or_default();
        (run::weight(rate, job.loader, args.jobs), job)
    });
    let (mut stop, sandbox) = (None, &run.sandbox);
    run::side_by_side(
        weighted.collect(),
        |job| attempt::attempt(sandbox, job),
        |(job, ended)| {
            let what = describe(&job);
            match ended {
                Ok(Loaded { mut row, picture, .. }) => {
                    progress.step(&format!("{what}: {:.2} s{}", row.time_s, failures(&row)));
                    let kept = match (pictures, picture) {
                        (Some(pictures), Some(picture)) => pictures.keep(&mut row, &picture),
                        _ => Ok(()),
                    };
                    let added = kept.map_err(CommandError::from);
                    if let Err(error) = added.and_then(|()| Ok(store.add(row)?)) {
                        stop = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                Err(attempt::Problem::Fatal(reason)) => {
                    stop = Some(CommandError::Worker(reason));
                    return ControlFlow::Break(());
                }
                Err(attempt::Problem::Load(reason)) => {
                    progress.step(&what);
                    progress.say(&format!("{what}: {reason}"));
                    problems.push(format!("{what}: {reason}"));
                }
            }
            ControlFlow::Continue(())
        },
    )
    .await;
    match stop {
        Some(error) => Err(error),
        None => Ok(problems),
    }
}

fn failures(row: &Row) -> String {
    if row.failed == 0 {
        return String::new();
    }
    format!(", {} of {} objects failed", row.failed, row.objects + row.failed)
}

fn describe(job: &LoadJob) -> String {
    let LoadJob {
        page,
        link,
        system,
        state,
        loader,
        scheme,
        run,
        ..
    } = job;
    let over = match scheme {
        ReplayScheme::Recorded => "",
        ReplayScheme::Http => " over http",
    };
    format!(
        "{} {}{over} {loader} {system} {state} #{run}",
        link.name(),
        page.name()
    )
}
