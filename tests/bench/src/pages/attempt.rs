//! A load in a worker, tried again if the worker fails.
use std::collections::BTreeSet;

use longhaul_report::Row;
use longhaul_world::sandbox::Sandbox;

use crate::{
    job::{Job, LoadJob, Reply},
    run,
};

/// A load whose worker failed is tried once more: a machine under load may have been too slow.
const ATTEMPTS: usize = 2;

/// Why a load has no row.
pub(super) enum Problem {
    /// Others would fail likewise.
    Fatal(String),
    /// This one.
    Load(String),
}

/// What a worker answers of a load.
pub(super) struct Loaded {
    pub(super) row: Row,
    /// The URLs that arrived.
    pub(super) delivered: BTreeSet<String>,
    /// Domains that the browser loaded over https although it was to load them over http.
    pub(super) upgraded: BTreeSet<String>,
    /// The picture of the page, a PNG in Base64.
    pub(super) picture: Option<String>,
}

pub(super) type Attempted = (LoadJob, Result<Loaded, Problem>);

/// Does a load in a worker, and once more if the worker fails.
pub(super) async fn attempt(sandbox: &Sandbox, job: LoadJob) -> Attempted {
    let work = Job::Load(Box::new(job.clone()));
    let mut problem = Problem::Load("not tried".to_owned());
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
            Ok(Reply::Measured(_)) => Problem::Load("the worker answered another question".to_owned()),
            Err(error) => Problem::Load(error.to_string()),
        };
    }
    (job, Err(problem))
}
