//! Reference loads: the URLs that are delivered when a page is loaded directly.
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use super::{
    Problems, Run,
    attempt::{Loaded, Problem, attempt},
};
use crate::{
    CommandError,
    cli::{PagesArgs, ReplayScheme},
    job::{Internet, LoadJob, OriginBehaviour, PageChoice, Picture},
    link::LinkChoice,
    loader::Loader,
    run,
    system::System,
};

/// Link of the direct reference loads.
const REFERENCE_LINK: &str = "lan-fast";

/// Maximum number of loads of a page until all domains are known that the browser loads only over https:
/// scripts discover further domains.
const ROUNDS: usize = 4;

/// Results of direct loads, by the properties on which the requested URLs depend.
pub(super) type References = BTreeMap<LoadKind, Reference>;

/// A complete load.
pub(super) struct Reference {
    /// The delivered URLs.
    pub(super) delivered: BTreeSet<String>,
    /// Domains that had another name.
    pub(super) renamed: BTreeSet<String>,
}

/// Properties of loads that request the same URLs: page, browser, scheme, suppression of motion for a
/// screenshot, and the system that determines the URLs.
pub(super) type LoadKind = (PageChoice, Loader, ReplayScheme, bool, System);

pub(super) fn load_kind(job: &LoadJob) -> LoadKind {
    (
        job.page.clone(),
        job.loader,
        job.scheme,
        job.picture == Picture::Taken,
        if job.system.rewrites_urls() {
            job.system
        } else {
            System::Direct
        },
    )
}

/// Loads each page once directly over a fast link, to determine the URLs of a complete load.
pub(super) async fn references(
    run: &Run,
    jobs: &[LoadJob],
    args: &PagesArgs,
    problems: &mut Problems,
) -> Result<References, CommandError> {
    let wanted: BTreeMap<_, _> = jobs.iter().map(|job| (load_kind(job), job.picture)).collect();
    let link = LinkChoice::new(REFERENCE_LINK, None);
    let loads = wanted
        .into_iter()
        .map(|((page, loader, scheme, _, system), picture)| {
            let bin_dir = run.bin_dir.clone();
            let usual = LoadJob::cold(page, link.clone(), (system, loader, scheme), args.seed, bin_dir);
            let job = LoadJob {
                internet: Internet {
                    delay: args.internet.internet_delay,
                    ..usual.internet
                },
                origin: OriginBehaviour {
                    keep_alive_timeout: args.origin.keep_alive_timeout,
                    ..usual.origin
                },
                picture,
                ..usual
            };
            // These are not timed: a few may share the machine.
            (run::WHOLE / 3, job)
        });
    let loads: Vec<_> = loads.collect();
    if loads.len() > 3 {
        crate::say(&format!(
            "first loading {} pages directly, to determine their complete sets of objects",
            loads.len()
        ));
    }
    let mut found = References::new();
    let (mut stop, mut loads) = (None, loads);
    for _ in 0..ROUNDS {
        let mut again = Vec::new();
        run::side_by_side(
            loads,
            |job| attempt(&run.sandbox, job),
            |(job, ended)| match note(job, ended, &mut found, problems) {
                Ok(job) => {
                    again.extend(job.map(|job| (run::WHOLE / 3, job)));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    stop = Some(error);
                    ControlFlow::Break(())
                }
            },
        )
        .await;
        loads = again;
        if stop.is_some() || loads.is_empty() {
            break;
        }
    }
    match stop {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// Records the result of a load. If the browser changed to https for some domains, the load is repeated with
/// other names for these.
fn note(
    mut job: LoadJob,
    ended: Result<Loaded, Problem>,
    found: &mut References,
    problems: &mut Problems,
) -> Result<Option<LoadJob>, CommandError> {
    let page = format!("{} with {}", job.page.name(), job.loader);
    match ended {
        Ok(Loaded {
            delivered, upgraded, ..
        }) if !delivered.is_empty() => {
            let reference = Reference {
                delivered,
                renamed: job.renamed.clone(),
            };
            found.insert(load_kind(&job), reference);
            let known = job.renamed.len();
            if job.scheme == ReplayScheme::Http {
                job.renamed.extend(upgraded);
            }
            return Ok((job.renamed.len() > known).then_some(job));
        }
        Ok(_) => problems.push(format!("{page}: the direct load failed; page omitted")),
        Err(Problem::Fatal(reason)) => return Err(CommandError::Worker(reason)),
        Err(Problem::Load(reason)) => {
            problems.push(format!("{page}: the direct load failed; page omitted: {reason}"));
        }
    }
    Ok(None)
}
