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

pub(super) type Attempted = (LoadJob, Result<Option<(Row, BTreeSet<String>)>, Problem>);

/// Does a load in a worker, and once more if the worker fails.
pub(super) async fn attempt(sandbox: &Sandbox, job: LoadJob) -> Attempted {
    let work = Job::Load(Box::new(job.clone()));
    let mut problem = Problem::Load("not tried".to_owned());
    for _ in 0..ATTEMPTS {
        problem = match run::run_job(sandbox, &work).await {
            Ok(Reply::Loaded { row, delivered }) => return (job, Ok(Some((*row, delivered)))),
            Ok(Reply::Failed { reason, fatal: true }) => return (job, Err(Problem::Fatal(reason))),
            Ok(Reply::Failed { reason, fatal: false }) => Problem::Load(reason),
            Ok(Reply::Measured(_)) => Problem::Load("the worker answered another question".to_owned()),
            Err(error) => Problem::Load(error.to_string()),
        };
    }
    (job, Err(problem))
}
