//! Reading of a pushed body from its stream into memory, from where requests read it.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, DecodeError};
use longhaul_driver::StreamError;
use longhaul_session::{EntryId, Evicted, Message, ShortHash, Withdrawal};
use longhaul_types::{ByteCount, ContentHash};
use tracing::{debug, warn};

use super::{
    page_load::PageLoad,
    pushed_body::{BodyFault, MAX_BODY, PushedBodyWriter},
};
use crate::{
    gateway::{ResponseStream, coding_of, next_window},
    store::Store,
};

/// Reads a pushed body to its end. If it is damaged, requests it again.
pub(super) async fn read(load: Arc<PageLoad>, store: &Store, entry: EntryId, mut stream: ResponseStream) {
    let Some(body) = load.begin_push(entry) else {
        debug!(
            %entry,
            "a push of a page load that has ended, or with an invalid entry number"
        );
        return;
    };
    let mut writer = body.writer();
    match windows(&load, store, &mut writer, &mut stream).await {
        Ok(chk) => {
            load.counters.savings.transferred(chk, body.wire_bytes());
            writer.finish(chk);
            load.counters.pushed_objects.increment();
        }
        Err(fault) => {
            // The stream must end before its replacement begins.
            drop(stream);
            match fault {
                BodyFault::Damaged => {
                    load.counters.windows_bad.increment();
                    warn!("a pushed body is damaged");
                    if load.send_want(entry) {
                        return;
                    }
                }
                BodyFault::NoBase => {
                    debug!("the base of a pushed body is not in the cache");
                    if load.send_want(entry) {
                        return;
                    }
                }
                BodyFault::TooLarge => load.withdraw_entry(entry, Withdrawal::TooLarge),
                BodyFault::SessionLost | BodyFault::Cut | BodyFault::Stuck => {
                    debug!(%entry, %fault, "a push ended early")
                }
            }
            writer.fail(fault);
        }
    }
    load.body_ended(entry);
}

async fn windows(
    load: &PageLoad,
    store: &Store,
    writer: &mut PushedBodyWriter,
    stream: &mut ResponseStream,
) -> Result<ContentHash, BodyFault> {
    let mut changes = load.changes();
    let announced = tokio::select! {
        body = stream.body() => body.map_err(|error| fault_of(&error))?.ok_or(BodyFault::Cut)?,
        () = load.until_over(&mut changes) => return Err(BodyFault::Cut),
    };
    writer.announce(announced.length)?;
    if announced.offset != 0 {
        return Err(BodyFault::Damaged);
    }
    let key = load.session.window_key().ok_or(BodyFault::SessionLost)?;
    let limits = BodyLimits {
        max_body: ByteCount::new(MAX_BODY),
    };
    let (name, coding) = (announced.base, announced.coding);
    writer.coded(announced);
    let base = match name {
        Some(name) => base(load, store, &name).await?,
        None => Bytes::new(),
    };
    let mut decoder = BodyDecoder::with_base(key, coding_of(coding), limits, &base);
    let mut begun = false;
    loop {
        let bytes = tokio::select! {
            bytes = stream.read() => bytes.map_err(|error| fault_of(&error))?,
            () = load.until_over(&mut changes) => return Err(BodyFault::Cut),
        };
        let Some(bytes) = bytes else {
            return decoder.finish().map_err(fault_of_windows);
        };
        load.record_progress();
        load.counters.pushed_bytes.add(bytes.len() as u64);
        writer.count(bytes.len() as u64);
        let mut wire = bytes;
        loop {
            match next_window(&mut decoder, &mut wire)
                .await
                .map_err(fault_of_windows)?
            {
                BodyEvent::Window(window) => {
                    writer.push(window)?;
                    if !std::mem::replace(&mut begun, true) {
                        load.notify();
                    }
                }
                BodyEvent::End(chk) => return Ok(chk),
                BodyEvent::NeedInput => break,
            }
        }
    }
}

/// Returns the base of a body. If the base is missing, the repeated push has no base.
async fn base(load: &PageLoad, store: &Store, name: &ShortHash) -> Result<Bytes, BodyFault> {
    if let Some(base) = store.base(name).await {
        load.counters.base_used(name);
        return Ok(base);
    }
    load.counters.bases_missing.increment();
    load.session
        .send_control(Message::Evicted(Evicted { hashes: vec![*name] }));
    Err(BodyFault::NoBase)
}

const fn fault_of(error: &StreamError) -> BodyFault {
    match error {
        StreamError::SessionLost(_) => BodyFault::SessionLost,
        StreamError::Cancelled(_) | StreamError::Stopped(_) | StreamError::Finished | _ => BodyFault::Cut,
    }
}

const fn fault_of_windows(error: DecodeError) -> BodyFault {
    match error {
        // The origin ended the body early: another push would not bring more.
        DecodeError::Truncated { .. } => BodyFault::Cut,
        DecodeError::TooLarge(_) => BodyFault::TooLarge,
        DecodeError::WindowMismatch { .. }
        | DecodeError::ContentMismatch
        | DecodeError::Malformed { .. }
        | _ => BodyFault::Damaged,
    }
}
