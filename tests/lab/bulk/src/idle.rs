//! An idle session.
use std::time::Duration;

use crate::{
    error::TransferError,
    exchange::Order,
    measured::{Idle, Outcome},
    priority::{MESSAGE, message},
    stage::Stage,
};

/// Time limit of the transfers before and after the idle time.
const USE_LIMIT: Duration = Duration::from_secs(60);
/// Idle time of the link before packets are counted.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn run(
    stage: &Stage<'_>,
    length: Duration,
    errors: &mut Vec<String>,
) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    stage.fetch(&client, Order::bytes(MESSAGE), USE_LIMIT).await?;
    stage.hop().idle(QUIET, USE_LIMIT).await;
    let before = stage.hop().snapshot();
    stage.until(before.now + length).await;
    let after = stage.hop().snapshot();
    let message_s = match message(stage, &client).await {
        Ok(took) => Some(took),
        Err(error) => {
            errors.push(error.to_string());
            None
        }
    };
    stage.close(&client).await;
    Ok(Outcome::Idle(Idle {
        packets_up: after.up.offered.packets - before.up.offered.packets,
        packets_down: after.down.offered.packets - before.down.offered.packets,
        message_s,
    }))
}
