//! The first session of a one-time invite: the agent replaces the key of the invite by a key of its own
//! (docs/protocol/session.md section 11). Nothing else is served in it.
use std::time::Duration;

use longhaul_driver::{EarlyData, End, OpenOptions, Priority, Session, SessionError};
use longhaul_gateway_core::{admission::devices::DevicesError, device_register::DeviceRegister};
use longhaul_session::{KeyWanted, Message, MirrorState, encode};
use longhaul_types::{DeviceId, PublicKey};
use tokio::time::timeout;
use tracing::info;

use super::{control::welcome, streams::AGENT_CONTROL};
use crate::session::incoming::{Incoming, IncomingError};

/// Time for the replacement, which takes two round trips: enough for the slowest links with losses.
const TIME: Duration = Duration::from_secs(120);
/// Transport error code with which the session of an agent that does not replace its key is closed
/// (docs/protocol/transport.md section 7.4).
const ERROR_MALFORMED: u64 = 2;

/// Causes for which the key was not replaced.
#[derive(Debug, thiserror::Error)]
enum ReplaceError {
    #[error(transparent)]
    Devices(#[from] DevicesError),
    #[error("the agent's control stream does not begin with hello, or ended")]
    NoHello,
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the control stream is broken: {0}")]
    Stream(#[from] IncomingError),
    #[error("the session was lost")]
    Lost,
}

/// Serves the session until the key is replaced.
pub(super) async fn serve(devices: &DeviceRegister, incoming: longhaul_driver::Incoming) {
    let (session, device) = (incoming.session, incoming.device);
    let id = DeviceId::of(&device);
    match timeout(TIME, replace(devices, &session, device)).await {
        Ok(Ok(new)) => {
            info!(device = %id, new = %DeviceId::of(&new), "a one-time invite was used: the agent has its own key now");
            // The new list closes the sessions of the old key.
            session.closed().await;
        }
        Ok(Err(error)) => {
            info!(device = %id, %error, "a one-time invite was not exchanged");
            session.close(ERROR_MALFORMED, "the one-time invite was not exchanged");
        }
        Err(_) => {
            info!(device = %id, "a one-time invite was not exchanged: the agent did not send its own key in time");
            session.close(
                ERROR_MALFORMED,
                "a one-time invite needs an agent that replaces its key",
            );
        }
    }
}

async fn replace(
    devices: &DeviceRegister,
    session: &Session,
    device: PublicKey,
) -> Result<PublicKey, ReplaceError> {
    // The gateway's first stream is its control stream.
    let options = OpenOptions {
        class: Priority::CONTROL,
        early: EarlyData::Allowed,
        total: None,
    };
    let mut answer = session.open(options, bytes::Bytes::new(), End::Open).await?;
    // Requests wait unread: the agent repeats them in the next session. The transport bounds their number.
    let mut requests = Vec::new();
    let mut control = loop {
        let stream = session.accept().await?;
        if stream.id() == AGENT_CONTROL {
            break Incoming::new(stream);
        }
        requests.push(stream);
    };
    let Some(Message::Hello(hello)) = control.message().await? else {
        return Err(ReplaceError::NoHello);
    };
    let mut wire = Vec::new();
    for message in [
        welcome(&hello, MirrorState::Unknown),
        Message::KeyWanted(KeyWanted {}),
    ] {
        // Messages of this size fit any envelope.
        let _fits = encode(&message, &mut wire);
    }
    if answer.write(wire.into()).await.is_err() {
        return Err(ReplaceError::Lost);
    }
    loop {
        match control.message().await? {
            Some(Message::NewKey(new)) => {
                let new = PublicKey::from_bytes(new.key);
                devices.replace_key(device, new).await?;
                return Ok(new);
            }
            Some(_) => {}
            None => return Err(ReplaceError::NoHello),
        }
    }
}
