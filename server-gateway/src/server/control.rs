//! Control streams: `Hello` and `Welcome`, then the agent's other control messages.
use std::{sync::Arc, time::Duration};

use longhaul_driver::SendStream;
use longhaul_session::{Forgotten, Hello, Message, MirrorState, VersionRange, Welcome, encode};
use tokio::time::timeout;
use tracing::{debug, info};

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
    info!(version, software, link = ?context.profile, "an agent introduced itself");
    let mut wire = Vec::new();
    // The size of `Welcome` is known at compile time.
    let mirror = context.bundles.hello(&hello).await;
    let _fits = encode(&welcome(&hello, mirror), &mut wire);
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
    loop {
        match incoming.message().await {
            Ok(Some(Message::Cancel(cancel))) => context.cancel(cancel.fetch),
            Ok(Some(Message::Want(want))) => context.bundles.want(want).await,
            Ok(Some(Message::Ask(ask))) => context.bundles.ask(ask).await,
            Ok(Some(Message::Used(used))) => context.bundles.used(used).await,
            Ok(Some(Message::Evicted(evicted))) => context.bundles.evicted(&evicted).await,
            Ok(Some(Message::Holding(holding))) => context.bundles.holding(&holding),
            Ok(Some(Message::Preferences(preferences))) => context.bundles.context().prefer(preferences),
            Ok(Some(Message::Dictionaries(dictionaries))) => context.bundles.dictionaries(dictionaries),
            Ok(Some(Message::AcceleratedHosts(hosts))) => context.bundles.context().accelerates(hosts),
            Ok(Some(Message::Forget(wanted))) => {
                forget::forget(&context, &wanted).await;
                let mut wire = Vec::new();
                // A number fits any envelope.
                let _fits = encode(&Message::Forgotten(Forgotten { id: wanted.id }), &mut wire);
                if answer.write(wire.into()).await.is_err() {
                    break;
                }
            }
            Ok(Some(_)) => debug!("unexpected message on the control stream"),
            Ok(None) | Err(IncomingError::Broken(_)) => break,
            Err(IncomingError::Malformed(error)) => {
                // No later message can be parsed: cancellations and evictions would be lost silently.
                return context.session.close(ERROR_MALFORMED, &error.to_string());
            }
        }
    }
    // The gateway's control stream stays open until the session ends.
    context.session.closed().await;
}

fn welcome(hello: &Hello, mirror: MirrorState) -> Message {
    Message::Welcome(Welcome {
        mirror,
        version: hello.versions.common(VersionRange::OURS).unwrap_or(0),
        versions: VersionRange::OURS,
        software: concat!("longhaul-gateway/", env!("CARGO_PKG_VERSION")).to_owned(),
    })
}
