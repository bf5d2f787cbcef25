//! Measurement of one experiment in one world.
use std::time::Duration;

use longhaul_netem::LinkDefinition;
use longhaul_report::Series;
use longhaul_types::{LinkProfile, Timestamp};
use longhaul_world::World;

use crate::{
    address, bulk, bundle, cancel,
    error::{ServeError, TransferError},
    experiment::Experiment,
    flows, idle, lost_packet,
    measured::{Cpu, Measured, Outcome},
    outage, priority, profile,
    stage::{Known, Stage},
    system::System,
    udp_blocked,
};

/// Maximum age of a world: in an older one scripted outages would come at the wrong time.
const FRESH: Timestamp = Timestamp::from_nanos(5_000_000_000);
/// Minimum error of the emulator that invalidates a run.
const LATENESS_FLOOR: Duration = Duration::from_millis(5);

/// Errors of running an experiment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkError {
    /// The server could not be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A client failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The world is not new.
    #[error("this world is {0:?} old; an experiment needs a new one")]
    OldWorld(Duration),
    /// It did not end within the time limit.
    #[error("no result after {0:?}: {1} has hung")]
    Hung(Duration, System),
}

/// Runs an experiment in a new world whose hop is [`Experiment::hop`] of the same link, on any tokio runtime
/// with time enabled.
///
/// `profile` is the profile that a user of the link would configure in the agent, for systems that use one.
///
/// Errors of a transfer after the start of the server are part of the result ([`Measured::errors`]): a system
/// that does not finish is a valid result.
///
/// # Errors
/// The server could not be started, or the world is not new.
pub async fn measure(
    world: &World,
    link: &LinkDefinition,
    profile: Option<LinkProfile>,
    system: System,
    experiment: Experiment,
) -> Result<Measured, BulkError> {
    let age = world.hop().now();
    if age > FRESH {
        return Err(BulkError::OldWorld(age - Timestamp::ZERO));
    }
    // The link of this experiment: a trace may begin at an offset.
    let shaped = LinkDefinition {
        name: link.name.clone(),
        hop: experiment.hop(link),
    };
    let known = Known {
        profile,
        wrong_rates: experiment.wrong_rates(),
    };
    let stage = Stage::set(world, &shaped, system, known).await?;
    let mut series = Vec::new();
    let mut errors = Vec::new();
    let before = stage.cpu();
    let limit = experiment.limit(link);
    let run = run(&stage, experiment, &mut series, &mut errors);
    let outcome = match tokio::time::timeout(limit, run).await {
        Ok(outcome) => outcome,
        Err(_) => Err(BulkError::Hung(limit, system)),
    };
    let outcome = match outcome {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            errors.push(error.to_string());
            None
        }
    };
    let lateness = world.hop().take_lateness().percentile(99);
    if measured_the_machine(lateness, link) {
        errors.push(format!(
            "the emulator was late by {lateness:?} (p99): this machine is overloaded, run fewer experiments in parallel"
        ));
    }
    if let Some(fault) = world.hop().snapshot().driver.fault {
        errors.push(format!("the emulated link stopped: {fault}"));
    }
    Ok(Measured {
        link: link.name.clone(),
        system,
        experiment,
        outcome,
        series,
        cpu: before.zip(stage.cpu()).map(|(before, after)| Cpu {
            client_s: after.client_s - before.client_s,
            server_s: after.server_s - before.server_s,
        }),
        lateness_p99_s: lateness.as_secs_f64(),
        errors,
    })
}

/// Returns true if the emulator delivered packets to the kernel so much later (`lateness`, 99th percentile)
/// than the model of `link` that an experiment measured the machine, not the link: later than 5 ms and than a
/// twentieth of the round trip. Its [`Measured::errors`] then contain this error.
pub fn measured_the_machine(lateness: Duration, link: &LinkDefinition) -> bool {
    lateness > LATENESS_FLOOR.max(link.rtt() / 20)
}

async fn run(
    stage: &Stage<'_>,
    experiment: Experiment,
    series: &mut Vec<Series>,
    errors: &mut Vec<String>,
) -> Result<Outcome, BulkError> {
    Ok(match experiment {
        Experiment::Bulk { length, .. }
        | Experiment::Traced { length, .. }
        | Experiment::Reordered { length } => bulk::run(stage, length, series).await?,
        Experiment::Bundle { bytes, session } => bundle::run(stage, bytes, session).await?,
        Experiment::Outage { length } => outage::run(stage, length, series, errors).await?,
        Experiment::TwoFlows { rival, length, .. } => flows::run(stage, rival, length, series).await?,
        Experiment::Priority { length } => priority::run(stage, length).await?,
        Experiment::AddressChange => address::run(stage, series, errors).await?,
        Experiment::UdpDies => udp_blocked::dies(stage, series, errors).await?,
        Experiment::UdpBlocked { network } => udp_blocked::opens(stage, network).await?,
        Experiment::WrongProfile { .. } => profile::run(stage, series).await?,
        Experiment::Idle { length } => idle::run(stage, length, errors).await?,
        Experiment::Cancel => cancel::run(stage).await?,
        Experiment::LostPacket { which, pairs } => lost_packet::run(stage, which, pairs).await?,
    })
}
