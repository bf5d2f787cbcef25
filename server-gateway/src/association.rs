//! UDP associations (docs/protocol/session.md section 14): relays the datagrams of a SOCKS client to hosts, and those that
//! hosts answer.
//!
//! An association is like a NAT with one client: all its datagrams leave from one port for each address family, and only
//! hosts to which the client has sent a datagram lately may answer (address and port-dependent filtering, RFC 4787).
mod relay;
mod remotes;
mod sockets;

use std::sync::Arc;

use longhaul_driver::{EarlyData, End, OpenOptions};
use longhaul_gateway_core::{association_slots::AssociationSlot, failure::Failure};
use longhaul_session::{AssociationAccept, AssociationOpen, FailureReason, FetchId, Message, class, encode};
use tracing::debug;

use self::relay::Relay;
use crate::{
    session::{context::SessionContext, incoming::Incoming},
    tunnel::fail,
};

/// Serves one association until the agent ends its stream.
pub(crate) async fn serve(context: Arc<SessionContext>, open: AssociationOpen, incoming: Incoming) {
    let _open = context.gateway.metrics.association();
    let Some(mut cancelled) = context.register(open.id) else {
        let failure = Failure::new(FailureReason::Malformed, "the association's number is in use");
        return fail(&context, open.id, failure).await;
    };
    let _slot = match admit(&context, &incoming) {
        Ok(slot) => slot,
        Err(failure) => return fail(&context, open.id, failure).await,
    };
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = run(&context, open.id, incoming) => {}
    }
}

fn admit(context: &SessionContext, incoming: &Incoming) -> Result<AssociationSlot, Failure> {
    let rules = context.gateway.rules.load();
    if incoming.was_early() {
        let detail = "an association must wait for the handshake";
        return Err(Failure::new(FailureReason::TooEarly, detail));
    }
    if context.session.max_datagram().is_none() {
        let detail = "the agent receives no datagrams";
        return Err(Failure::new(FailureReason::Malformed, detail));
    }
    if rules.udp_ports.is_empty() {
        let detail = "this gateway relays no UDP datagrams";
        return Err(Failure::new(FailureReason::TargetRefused, detail));
    }
    let slots = &context.gateway.association_slots;
    slots
        .take(context.device, rules.associations_per_device)
        .ok_or_else(|| {
            let detail = "this device has reached its limit of UDP associations";
            Failure::new(FailureReason::Overloaded, detail)
        })
}

async fn run(context: &SessionContext, id: FetchId, mut incoming: Incoming) {
    let (_registered, parts) = context.associations.register(id);
    let mut wire = Vec::new();
    // A number fits any envelope.
    let _fits = encode(&Message::AssociationAccept(AssociationAccept { id }), &mut wire);
    let options = OpenOptions {
        class: class::PAGE,
        early: EarlyData::Allowed,
        total: None,
    };
    // Its end tells the agent that the association has ended.
    let Ok(mut accepted) = context.session.open(options, wire.into(), End::Open).await else {
        return;
    };
    let relay = Relay::new(context, id).run(parts);
    tokio::select! {
        () = relay => {}
        // The end of the agent's stream, in any way, is that of the association.
        ended = incoming.bytes() => debug!(?ended, "association ended"),
        _ = accepted.stopped() => {}
    }
    // Fails if the session has ended, which is harmless.
    let _gone = accepted.finish().await;
}
