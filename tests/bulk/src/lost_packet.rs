//! Messages of which one packet is lost, each beside one of which none is.
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

/// A response of several packets whose last one is a large one with headers of any of the systems.
const SEVERAL: u64 = 10_700;
/// A response of one packet.
const SINGLE: u64 = 500;
/// Of the last packet of [`SEVERAL`] this much is certain to be data, whatever small packet comes behind it.
const TAIL: u64 = 150;
/// More than any experiment sends.
const NEVER: ByteCount = ByteCount::new(u64::MAX);
/// Pairs are begun within this.
const BEGUN_WITHIN: Duration = Duration::from_secs(240);
/// All of it ends within this.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// A message that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// The link is quiet for this long before each message.
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
        // What was not lost yet is not to be lost later.
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

/// A message's time, and what the link had sent to the client when it was complete.
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
