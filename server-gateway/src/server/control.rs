//! Control streams: `Hello` and `Welcome`, then the agent's other control messages.
use std::{sync::Arc, time::Duration};

use longhaul_driver::SendStream;
use longhaul_gateway_core::admission::shared_keys;
use longhaul_session::{
    AgentControl, Announcement, Forgotten, Hello, Message, MirrorState, Notice, OriginReport, VersionRange,
    Welcome, encode,
};
use tokio::{sync::watch, time::timeout};
use tracing::{debug, info, warn};

use super::forget;
use crate::session::{
    context::SessionContext,
    incoming::{Incoming, IncomingError},
};

/// Transport error codes with which a session is closed (docs/protocol/transport.md section 7.4).
const ERROR_MALFORMED: u64 = 2;
pub(super) const ERROR_INTERNAL: u64 = 5;
/// Time that an agent without a common version has to read `Welcome` and close the session.
const FAREWELL: Duration = Duration::from_secs(10);

/// What the gateway announces of itself at present.
fn announcement(announced: &mut watch::Receiver<Announcement>) -> Message {
    Message::Announcement(announced.borrow_and_update().clone())
}

/// Serves the control streams until the session ends.
pub(super) async fn serve(context: Arc<SessionContext>, mut incoming: Incoming, mut answer: SendStream) {
    let Ok(Some(Message::Hello(hello))) = incoming.message().await else {
        let reason = "the control stream begins without hello";
        return context.session.close(ERROR_MALFORMED, reason);
    };
    let version = hello.versions.common(VersionRange::OURS);
    let software: String = hello
        .software
        .chars()
        .filter(char::is_ascii_graphic)
        .take(64)
        .collect();
    context.gateway.ledger.introduce(context.device, &software);
    info!(version, software, link = ?context.profile, "an agent introduced itself");
    let mut wire = Vec::new();
    // The size of `Welcome` is known at compile time.
    let mirror = context.page_loads.hello(&hello).await;
    let _fits = encode(&welcome(&hello, mirror), &mut wire);
    // Says that reports will follow.
    let _fits = encode(&Message::OriginReport(OriginReport::default()), &mut wire);
    let mut announced = context.gateway.announcement.subscribe();
    let _fits = encode(&announcement(&mut announced), &mut wire);
    let introduction = context
        .gateway
        .shared_keys
        .introduce(context.device, hello.cache_state);
    let _once = context.introduction.set(introduction.number);
    if introduction.is_shared {
        warn!("two agents use the key of this device: each ends the session of the other");
        let text = shared_keys::NOTICE.to_owned();
        let _fits = encode(&Message::Notice(Notice { text }), &mut wire);
    }
    if answer.write(wire.into()).await.is_err() {
        return;
    }
    if version.is_none() {
        // Close the session if the agent does not.
        let _left = timeout(FAREWELL, context.session.closed()).await;
        return context
            .session
            .close(ERROR_MALFORMED, "no common session version");
    }
    let reports = Arc::clone(&context.page_loads.context().origin_reports);
    // An agent may stop this stream and still send control messages.
    let (mut takes_reports, mut knows_quota) = (true, false);
    loop {
        let message = tokio::select! {
            message = incoming.message() => message,
            Ok(()) = announced.changed(), if takes_reports => {
                let mut wire = Vec::new();
                let _fits = encode(&announcement(&mut announced), &mut wire);
                takes_reports = answer.write(wire.into()).await.is_ok();
                continue;
            }
            reached = context.quota.until_reached(), if !knows_quota => {
                knows_quota = true;
                context.page_loads.clear();
                let mut wire = Vec::new();
                // A name has at most 64 characters.
                let _fits = encode(&Message::Notice(Notice { text: reached.to_string() }), &mut wire);
                takes_reports = answer.write(wire.into()).await.is_ok();
                continue;
            }
            report = reports.next(), if takes_reports => {
                context.gateway.metrics.observed.reported(&report);
                let mut wire = Vec::new();
                // The number of entries is limited.
                let _fits = encode(&Message::OriginReport(report), &mut wire);
                takes_reports = answer.write(wire.into()).await.is_ok();
                continue;
            }
        };
        let message = match message {
            Ok(Some(message)) => AgentControl::of(message),
            Ok(None) | Err(IncomingError::Broken(_)) => break,
            Err(IncomingError::Malformed(error)) => {
                // No later message can be parsed: cancellations and evictions would be lost silently.
                return context.session.close(ERROR_MALFORMED, &error.to_string());
            }
        };
        let Some(message) = message else {
            debug!("unexpected message on the control stream");
            continue;
        };
        let page_loads = &context.page_loads;
        match message {
            AgentControl::Cancel(cancel) => context.cancel(cancel.fetch),
            AgentControl::Want(want) => page_loads.want(want).await,
            AgentControl::Ask(ask) => page_loads.ask(ask).await,
            AgentControl::Used(used) => page_loads.used(used),
            AgentControl::Evicted(evicted) => page_loads.evicted(&evicted).await,
            AgentControl::Holding(holding) => page_loads.holding(&holding),
            AgentControl::Preferences(preferences) => page_loads.context().prefer(preferences),
            AgentControl::Dictionaries(dictionaries) => page_loads.dictionaries(dictionaries),
            AgentControl::AcceleratedHosts(hosts) => page_loads.context().accelerates(hosts),
            AgentControl::SiteImages(images) => page_loads.context().prefer_for_sites(images),
            AgentControl::Forget(wanted) => {
                forget::forget(&context, &wanted).await;
                let mut wire = Vec::new();
                // A number fits any envelope.
                let _fits = encode(&Message::Forgotten(Forgotten { id: wanted.id }), &mut wire);
                if answer.write(wire.into()).await.is_err() {
                    break;
                }
            }
        }
    }
    // The gateway's control stream stays open until the session ends.
    context.session.closed().await;
}

pub(super) fn welcome(hello: &Hello, mirror: MirrorState) -> Message {
    Message::Welcome(Welcome {
        mirror,
        version: hello.versions.common(VersionRange::OURS),
        versions: VersionRange::OURS,
        software: concat!("longhaul-gateway/", env!("CARGO_PKG_VERSION")).to_owned(),
    })
}
