//! What a complete load of a page is: what arrives when it is loaded directly.
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    time::Duration,
};

use super::{
    Problems, Run,
    attempt::{Problem, attempt},
};
use crate::{
    CommandError,
    cli::{Beside, ImageLevel, PagesArgs},
    job::{Internet, LoadJob, OriginBehaviour, PageChoice},
    link::LinkChoice,
    loader::Loader,
    run,
    state::State,
    system::System,
};

/// The link over which a page is loaded directly to learn what a complete load of it is.
const REFERENCE_LINK: &str = "lan-fast";

/// URLs that a direct load got, by page and browser.
pub(super) type References = BTreeMap<(PageChoice, Loader), BTreeSet<String>>;

/// Loads each page once directly over a fast link: what arrives then is what a complete load is.
pub(super) async fn references(
    run: &Run,
    jobs: &[LoadJob],
    args: &PagesArgs,
    problems: &mut Problems,
) -> Result<References, CommandError> {
    let wanted: BTreeSet<_> = jobs.iter().map(|job| (job.page.clone(), job.loader)).collect();
    let link = LinkChoice::new(REFERENCE_LINK, None);
    let loads = wanted.into_iter().map(|(page, loader)| {
        let job = LoadJob {
            seed: args.seed,
            page,
            link: link.clone(),
            system: System::Direct,
            state: State::Cold,
            loader,
            image_level: ImageLevel::Original,
            run: 1,
            internet: Internet {
                loss: 0.0,
                delay: args.internet.internet_delay,
                congestion: None,
            },
            origin: OriginBehaviour {
                think_time: Duration::ZERO,
                close_after: None,
                keep_alive: true,
                keep_alive_timeout: args.origin.keep_alive_timeout,
            },
            beside: Beside::Nothing,
            detail: false,
            limit: None,
            bin_dir: run.bin_dir.clone(),
            expected: None,
        };
        // These are not timed: a few may share the machine.
        (run::WHOLE / 3, job)
    });
    let loads: Vec<_> = loads.collect();
    if loads.len() > 3 {
        crate::say(&format!(
            "loading {} pages directly first, to know what is complete",
            loads.len()
        ));
    }
    let mut found = References::new();
    let (mut stop, sandbox) = (None, &run.sandbox);
    run::side_by_side(
        loads,
        |job| attempt(sandbox, job),
        |(job, ended)| {
            let page = job.page.name().to_owned();
            match ended {
                Ok(Some((_, delivered))) if !delivered.is_empty() => {
                    found.insert((job.page, job.loader), delivered);
                }
                Ok(_) => problems.push(format!(
                    "{page} with {}: does not load directly; left out",
                    job.loader
                )),
                Err(Problem::Fatal(reason)) => {
                    stop = Some(CommandError::Worker(reason));
                    return ControlFlow::Break(());
                }
                Err(Problem::Load(reason)) => {
                    problems.push(format!(
                        "{page} with {}: does not load directly, left out: {reason}",
                        job.loader
                    ));
                }
            }
            ControlFlow::Continue(())
        },
    )
    .await;
    match stop {
        Some(error) => Err(error),
        None => Ok(found),
    }
}
