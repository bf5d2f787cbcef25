//! Messages of which one packet is lost, alternating with messages without loss.
use std::time::Duration;

use longhaul_netem::Side;
use longhaul_types::ByteCount;

use crate::{
    client::Client,
    error::TransferError,
    exchange::Order,
    experiment::LostPacket,
    measured::{LostPackets, Outcome},
    priority::percentile,
    stage::Stage,
};

/// Length of a response of several packets, of which the last one is large with the headers of any system.
const SEVERAL: u64 = 10_700;
/// Length of a response of one packet.
const SINGLE: u64 = 500;
/// Bytes of the last packet of [`SEVERAL`] that are certainly data, whatever small packet comes after it.
const TAIL: u64 = 150;
/// More bytes than any experiment sends.
const NEVER: ByteCount = ByteCount::new(u64::MAX);
/// Time within which new pairs are started.
const BEGUN_WITHIN: Duration = Duration::from_secs(240);
/// Time limit of the whole experiment.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// Timeout of a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// Idle time of the link before each message.
const QUIET: Duration = Duration::from_millis(1500);

pub(crate) async fn run(stage: &Stage<'_>, which: LostPacket, pairs: u16) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    let length = match which {
        LostPacket::Tail => SEVERAL,
        LostPacket::Request => SINGLE,
    };
    message(stage, &client, length).await?;
    let mut alone = Vec::new();
    let mut extra = Vec::new();
    let end = stage.hop().now() + BEGUN_WITHIN;
    for _ in 0..pairs {
        if stage.hop().now() >= end {
            break;
        }
        let undisturbed = message(stage, &client, length).await?;
        stage.hop().idle(QUIET, PATIENCE).await;
        let before = stage.hop().snapshot();
        match which {
            LostPacket::Tail => {
                let last = undisturbed.bytes.saturating_sub(TAIL);
                stage.hop().lose_after(Side::Client, ByteCount::new(last));
            }
            LostPacket::Request => stage.hop().lose_after(Side::Gateway, ByteCount::ZERO),
        }
        let disturbed = message_now(stage, &client, length).await?;
        let after = stage.hop().snapshot();
        // A packet that has not been lost yet must not be lost later.
        stage.hop().lose_after(Side::Client, NEVER);
        stage.hop().lose_after(Side::Gateway, NEVER);
        alone.push(undisturbed.took_s);
        let lost = |stats: &longhaul_netem::LinkStats| stats.dropped_total().packets;
        let (before, after) = match which {
            LostPacket::Tail => (lost(&before.down), lost(&after.down)),
            LostPacket::Request => (lost(&before.up), lost(&after.up)),
        };
        if after > before {
            extra.push(disturbed.took_s - undisturbed.took_s);
        }
    }
    stage.close(&client).await;
    alone.sort_by(f64::total_cmp);
    extra.sort_by(f64::total_cmp);
    Ok(Outcome::LostPacket(LostPackets {
        alone_s: percentile(&alone, 50),
        extra_p50_s: percentile(&extra, 50),
        extra_p95_s: percentile(&extra, 95),
        messages: u32::try_from(extra.len()).unwrap_or(u32::MAX),
    }))
}

/// A message's time, and the bytes sent by the link to the client when it was complete.
struct Message {
    took_s: f64,
    bytes: u64,
}

async fn message(stage: &Stage<'_>, client: &Client, length: u64) -> Result<Message, TransferError> {
    stage.hop().idle(QUIET, PATIENCE).await;
    message_now(stage, client, length).await
}

async fn message_now(stage: &Stage<'_>, client: &Client, length: u64) -> Result<Message, TransferError> {
    let before = stage.hop().snapshot().down.sent.bytes;
    let progress = stage.fetch(client, Order::urgent(length), PATIENCE).await?;
    let bytes = stage.hop().snapshot().down.sent.bytes - before;
    let ended = progress.last().map(|last| last.at);
    let took = progress.asked().zip(ended).map(|(asked, ended)| ended - asked);
    Ok(Message {
        took_s: took.ok_or(TransferError::TimedOut("a message"))?.as_secs_f64(),
        bytes: bytes.bytes(),
    })
}
