//! One load, or one experiment, in a separate network.
//!
//! This process was started in a sandbox: it may create network namespaces, its temporary files are in a file
//! system that is removed with it, and it ends when its parent does.
mod browser;
mod bulk_download;
mod clientless;
mod device_requests;
mod http2_pair;
mod idle;
mod load_detail;
mod network;
mod next_page;
mod nftables;
mod pair;
pub mod programs;
pub mod row;
mod service;
mod squid;
mod visits;
mod ziproxy;

use std::{
    io::{BufRead, Read, Write, stdin, stdout},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_world::{World, WorldConfig, sandbox};

use crate::{
    CommandError,
    job::{Internet, Job, LoadJob, Reply, TransportJob},
};

/// Delay of the Internet, which the transfers between client and gateway do not use.
const INTERNET_DELAY: Duration = Duration::from_millis(20);
/// Maximum length of a job: the URLs of a page of 100,000 objects.
const MAX_JOB: u64 = 64 * 1024 * 1024;

/// Runs the worker: reads a job, executes it, prints the reply. The process must end afterwards.
///
/// # Errors
/// The job cannot be read, or the reply cannot be written.
pub fn work() -> Result<(), CommandError> {
    // In the sandbox's first process this does not return.
    let sandbox = sandbox::enter()?;
    let mut line = String::new();
    stdin()
        .lock()
        .take(MAX_JOB)
        .read_line(&mut line)
        .map_err(CommandError::WorkerInput)?;
    let job = serde_json::from_str::<Job>(&line).map_err(|error| CommandError::WorkerInput(error.into()))?;
    let reply = perform(job, &sandbox);
    let text = serde_json::to_string(&reply).map_err(|error| CommandError::WorkerInput(error.into()))?;
    let mut output = stdout().lock();
    writeln!(output, "{text}")
        .and_then(|()| output.flush())
        .map_err(CommandError::WorkerInput)
}

fn perform(job: Job, sandbox: &sandbox::Inside) -> Reply {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Reply::Failed {
                reason: error.to_string(),
                fatal: true,
            };
        }
    };
    match job {
        Job::Load(job) => runtime.block_on(load(&job, sandbox)),
        Job::Visits(job) => runtime.block_on(visits::visits(&job, sandbox.scratch())),
        Job::Transport(job) => runtime.block_on(transport(&job)),
    }
}

async fn load(job: &LoadJob, sandbox: &sandbox::Inside) -> Reply {
    match browser::measured_load(job, sandbox.scratch()).await {
        Ok(loaded) => Reply::Loaded {
            row: Box::new(loaded.row),
            delivered: loaded.delivered,
            upgraded: loaded.upgraded,
            picture: loaded.picture.map(|png| STANDARD.encode(png)),
        },
        Err(error) => Reply::Failed {
            fatal: error.is_fatal(),
            reason: error.to_string(),
        },
    }
}

async fn transport(job: &TransportJob) -> Reply {
    let measured = async {
        let resolved = job.link.resolve().map_err(|error| error.to_string())?;
        let profile = resolved.agent_profile.as_ref().and_then(|name| name.parse().ok());
        let link = resolved.definition();
        let world = World::build(WorldConfig {
            hop: job.experiment.hop(&link),
            internet: network::internet(&Internet {
                loss: 0.0,
                delay: INTERNET_DELAY,
                congestion: None,
            }),
            seed: job.seed,
            congestion: job.congestion.clone(),
        });
        let world = world.map_err(|error| error.to_string())?;
        let measured = longhaul_bulk::measure(&world, &link, profile, job.system, job.experiment).await;
        measured.map_err(|error| error.to_string())
    };
    match measured.await {
        Ok(measured) => Reply::Measured(Box::new(measured)),
        Err(reason) => Reply::Failed { reason, fatal: false },
    }
}
