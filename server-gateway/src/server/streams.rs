//! Serves one session: starts a task for each stream, bounded in number.
use std::{future::pending, sync::Arc, time::Duration};

use longhaul_driver::{CloseReason, EarlyData, End, LinkState, OpenOptions, Priority, RecvStream, Session};
use longhaul_gateway_core::{
    device_streams::{DeviceStreams, StreamSlot},
    failure::Failure,
    gateway::Gateway,
};
use longhaul_session::{FailureReason, RequestMessage};
use longhaul_types::{DeviceId, LinkProfile, PublicKey, StreamId};
use longhaul_webcache::SessionHop;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{Instrument as _, debug, info, info_span, warn};

use super::control;
use crate::{
    association, fetch,
    session::{
        context::SessionContext,
        incoming::{Incoming, IncomingError},
    },
    tunnel,
};

/// Duration of a stall after which the hop counts as away: the gateway then goes on fetching what waits for the
/// device. Shorter stalls are frequent on some links, and origins wait longer.
const AWAY_AFTER: Duration = Duration::from_secs(3);
/// Number of the agent's control stream.
pub(super) const AGENT_CONTROL: StreamId = StreamId(0);

/// Serves a session until it ends.
pub(super) async fn serve(gateway: Arc<Gateway>, incoming: longhaul_driver::Incoming) {
    let longhaul_driver::Incoming {
        session,
        device,
        profile,
    } = incoming;
    let span = info_span!("session", device = %DeviceId::of(&device));
    run(gateway, session, device, profile).instrument(span).await;
}

async fn run(gateway: Arc<Gateway>, session: Session, device: PublicKey, profile: Option<LinkProfile>) {
    let Some(exporter) = session.exporter() else {
        // The transport has its keys before it hands over a session; without them no window check could be
        // computed.
        warn!("a session has no exported keys; it is not served");
        return session.close(control::ERROR_INTERNAL, "no keys");
    };
    let device_streams = gateway.device_streams(device);
    let window_key = longhaul_session::window_key(&exporter);
    let context = Arc::new(SessionContext::new(
        gateway,
        session.clone(),
        device,
        profile,
        window_key,
    ));
    let hop = report_hop(session.clone(), context.gateway.store.enter_session(device));
    tokio::pin!(hop);
    let _open = context.gateway.metrics.session();
    info!("session open");
    // Before any response: the gateway's first stream is its control stream.
    let options = OpenOptions {
        class: Priority::CONTROL,
        early: EarlyData::Allowed,
        total: None,
    };
    let Ok(control) = session.open(options, bytes::Bytes::new(), End::Open).await else {
        return;
    };
    let mut control = Some(control);
    let mut tasks = JoinSet::new();
    // The session keeps this limit, which its agent knows from the handshake.
    let streams_per_session = context.gateway.rules.load().streams_per_session;
    let slots = StreamSlots {
        session: Arc::new(Semaphore::new(streams_per_session)),
        device: device_streams,
    };
    // As many streams again may wait for a slot, so that they receive a timely refusal; plus the control
    // stream.
    let limit = 2 * streams_per_session + 1;
    loop {
        tokio::select! {
            stream = session.accept(), if tasks.len() < limit => match stream {
                Ok(stream) if stream.id() == AGENT_CONTROL => {
                    if let Some(answer) = control.take() {
                        let task = control::serve(Arc::clone(&context), Incoming::new(stream), answer);
                        tasks.spawn(task.in_current_span());
                    }
                }
                Ok(stream) => {
                    let task = serve_stream(Arc::clone(&context), stream, slots.clone());
                    tasks.spawn(task.in_current_span());
                }
                Err(_) => break,
            },
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    warn!("a request's task ended in a panic");
                }
            }
            Ok(datagram) = session.recv_datagram() => context.associations.deliver(datagram),
            _ = session.closed() => break,
            () = &mut hop => {}
        }
    }
    let reason = session.closed().await;
    context.page_loads.clear();
    // The agent that replaced this one compares itself with it, perhaps later.
    if let Some(&number) = context.introduction.get()
        && reason != CloseReason::Replaced
    {
        context.gateway.shared_keys.end(&device, number);
    }
    context.gateway.metrics.observed.closed(&reason);
    info!(%reason, "session closed");
}

/// Reports whether the hop of a session works, as long as the future exists.
async fn report_hop(session: Session, mut hop: SessionHop) {
    let mut state = session.state();
    loop {
        let is_stalled = *state.borrow_and_update() == LinkState::Stalled;
        if !is_stalled {
            hop.set_away(false);
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() {
                // The session is over.
                pending::<()>().await;
            },
            () = sleep(AWAY_AFTER), if is_stalled => {
                hop.set_away(true);
                if state.changed().await.is_err() {
                    pending::<()>().await;
                }
            }
        }
    }
}

/// Stream slots of a session and its device.
#[derive(Clone)]
struct StreamSlots {
    session: Arc<Semaphore>,
    device: Arc<DeviceStreams>,
}

impl StreamSlots {
    /// Acquires a slot of both; `None` on timeout.
    async fn acquire(&self, limit: Duration) -> Option<(OwnedSemaphorePermit, StreamSlot)> {
        let both = async {
            let session = Arc::clone(&self.session).acquire_owned().await.ok()?;
            let device = self.device.acquire().await?;
            Some((session, device))
        };
        timeout(limit, both).await.ok().flatten()
    }
}

/// Fails a request without serving it.
async fn refuse(context: &SessionContext, message: &RequestMessage, failure: Failure) {
    match message {
        RequestMessage::Fetch(refused) => fetch::refuse(context, refused, failure).await,
        RequestMessage::TunnelOpen(refused) => tunnel::fail(context, refused.id, failure).await,
        RequestMessage::AssociationOpen(refused) => tunnel::fail(context, refused.id, failure).await,
    }
}

async fn serve_stream(context: Arc<SessionContext>, stream: RecvStream, slots: StreamSlots) {
    let mut incoming = Incoming::new(stream);
    let message = match incoming.message().await {
        Ok(Some(message)) => message,
        Ok(None) | Err(IncomingError::Broken(_)) => return,
        Err(IncomingError::Malformed(error)) => {
            debug!(%error, "the first message of a stream is malformed");
            return incoming.refuse();
        }
    };
    let Some(message) = RequestMessage::of(message) else {
        debug!("unexpected first message of a stream");
        return incoming.refuse();
    };
    let queue_timeout = context.gateway.rules.load().queue_timeout;
    let Some(_slots) = slots.acquire(queue_timeout).await else {
        let detail =
            "this device has reached its limit of concurrent requests, and none of them ended in time";
        context.gateway.metrics.limit_reached("streams");
        let failure = Failure::new(FailureReason::Overloaded, detail);
        return refuse(&context, &message, failure).await;
    };
    if let Some(reached) = context.quota.reached() {
        context.gateway.metrics.limit_reached("quota");
        return refuse(&context, &message, reached.failure()).await;
    }
    match message {
        RequestMessage::Fetch(fetch) => Box::pin(fetch::serve(context, fetch, incoming)).await,
        RequestMessage::TunnelOpen(open) => Box::pin(tunnel::serve(context, open, incoming)).await,
        RequestMessage::AssociationOpen(open) => {
            let quota = Arc::clone(&context.quota);
            tokio::select! {
                () = Box::pin(association::serve(context, open, incoming)) => {}
                _ = quota.until_reached() => debug!("an association ends, because the quota of its device is reached"),
            }
        }
    }
}
