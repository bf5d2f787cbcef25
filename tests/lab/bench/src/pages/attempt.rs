//! A load in a worker, repeated if the worker fails.
use std::collections::BTreeSet;

use longhaul_report::Row;
use longhaul_world::sandbox::Sandbox;

use crate::{
    job::{Job, LoadJob, Reply},
    run,
};

/// Maximum number of attempts: a worker may fail because the machine is overloaded.
const ATTEMPTS: usize = 2;

/// Reason of a load without a row.
pub(super) enum Problem {
    /// Other loads would fail, too.
    Fatal(String),
    /// Only this load failed.
    Load(String),
}

/// Result of a load.
pub(super) struct Loaded {
    pub(super) row: Row,
    /// The delivered URLs.
    pub(super) delivered: BTreeSet<String>,
    /// Domains that the browser loaded over https although they were requested over http.
    pub(super) upgraded: BTreeSet<String>,
    /// Screenshot of the page, a PNG in Base64.
    pub(super) picture: Option<String>,
}

pub(super) type Attempted = (LoadJob, Result<Loaded, Problem>);

/// Runs a load in a worker, and repeats it if the worker fails.
pub(super) async fn attempt(sandbox: &Sandbox, job: LoadJob) -> Attempted {
    let work = Job::Load(Box::new(job.clone()));
    let mut problem = Problem::Load("not attempted".to_owned());
    for _ in 0..ATTEMPTS {
        problem = match run::run_job(sandbox, &work).await {
            Ok(Reply::Loaded {
                row,
                delivered,
                upgraded,
                picture,
            }) => {
                let loaded = Loaded {
                    row: *row,
                    delivered,
                    upgraded,
                    picture,
                };
                return (job, Ok(loaded));
            }
            Ok(Reply::Failed { reason, fatal: true }) => return (job, Err(Problem::Fatal(reason))),
            Ok(Reply::Failed { reason, fatal: false }) => Problem::Load(reason),
            Ok(Reply::Measured(_) | Reply::Visited { .. }) => {
                Problem::Load("the worker replied to another job".to_owned())
            }
            Err(error) => Problem::Load(error.to_string()),
        };
    }
    (job, Err(problem))
}
