//! UDP associations in the session (docs/protocol/session.md section 14).
use std::sync::Arc;

use longhaul_driver::{Datagram, End, Priority, SendStream};
use longhaul_session::{
    AssociationOpen, FailureReason, FetchId, Message,
    datagram::{Pace, Part, Reassembly, UdpDatagram, parts},
    encode,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    answer::{GatewayAnswer, ResponseStream},
    exchange::Exchange,
    gateway_session::{GatewaySession, SendError, SendPhase},
};

/// Errors of opening an association.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssociateError {
    /// The gateway relays no datagrams: it is older than they are.
    #[error("the gateway relays no datagrams")]
    Unsupported,
    /// The gateway refused.
    #[error("{detail}")]
    Refused {
        /// The reason.
        reason: FailureReason,
        /// Details.
        detail: String,
    },
    /// The session was lost, or is busy.
    #[error(transparent)]
    Session(#[from] SendError),
}

/// An open association. It ends when it is dropped.
#[derive(Debug)]
pub struct Association {
    registered: Registered,
    /// Dropping it tells the gateway that the association has ended.
    _up: SendStream,
    down: ResponseStream,
    parts: mpsc::Receiver<Part>,
    reassembly: Reassembly,
    pace: Pace,
    /// Number of the next datagram with several parts.
    number: u16,
    start: Instant,
}

impl GatewaySession {
    /// Opens an association.
    ///
    /// # Errors
    /// The gateway does not relay datagrams, or refuses; or the session is lost.
    pub async fn associate(self: &Arc<Self>) -> Result<Association, AssociateError> {
        if self.transport().max_datagram().is_none() {
            return Err(AssociateError::Unsupported);
        }
        let (answer_sender, answer) = oneshot::channel();
        let id = self
            .requests()
            .table()
            .register(answer_sender)
            .map_err(SendError::Lost)?;
        let mut exchange = Exchange {
            session: Arc::clone(self),
            id,
            answer,
            settled: false,
            _expectation: self.transport().expect_data(),
        };
        let parts = self.requests().associations.register(id);
        let registered = Registered {
            session: Arc::clone(self),
            id,
        };
        let mut wire = Vec::new();
        // A number fits any envelope.
        let _fits = encode(&Message::AssociationOpen(AssociationOpen { id }), &mut wire);
        let up = self
            .open_stream(Priority::NORMAL, SendPhase::Open, wire.into(), End::Open)
            .await?;
        let down = match exchange.answer().await.map_err(SendError::Lost)? {
            GatewayAnswer::Tunnel(down) => down,
            GatewayAnswer::Failed { reason, detail } => {
                return Err(AssociateError::Refused { reason, detail });
            }
            GatewayAnswer::Head { .. } | GatewayAnswer::Promised { .. } | GatewayAnswer::Malformed => {
                return Err(AssociateError::Refused {
                    reason: FailureReason::Malformed,
                    detail: "the gateway's answer to an association is not valid".to_owned(),
                });
            }
        };
        Ok(Association {
            registered,
            _up: up,
            down,
            parts,
            reassembly: Reassembly::default(),
            pace: Pace::default(),
            number: 0,
            start: Instant::now(),
        })
    }
}

/// An association gets datagrams until this is dropped.
#[derive(Debug)]
struct Registered {
    session: Arc<GatewaySession>,
    id: FetchId,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.session.requests().associations.remove(self.id);
    }
}

impl Association {
    /// Sends a datagram, which may be lost. One that needs too many parts is dropped.
    pub fn send(&mut self, datagram: &UdpDatagram) {
        let Registered { session, id } = &self.registered;
        let transport = session.transport();
        let (Some(bytes), Some(max)) = (datagram.encode(), transport.max_datagram()) else {
            return;
        };
        let class = self.pace.class_of(self.start.elapsed(), bytes.len());
        let parts = parts(*id, self.number, &bytes, max);
        if parts.len() > 1 {
            self.number = self.number.wrapping_add(1);
        }
        for bytes in parts {
            transport.send_datagram(Datagram {
                flow: id.number(),
                class,
                bytes,
            });
        }
    }

    /// Returns the next datagram of a host; `None` if the association has ended at the gateway, or the session is lost.
    /// Cancel safe.
    pub async fn receive(&mut self) -> Option<UdpDatagram> {
        loop {
            let part = tokio::select! {
                biased;
                part = self.parts.recv() => part?,
                ended = self.down.read() => match ended {
                    // The gateway sends nothing on this stream.
                    Ok(Some(_)) => continue,
                    Ok(None) | Err(_) => return None,
                },
            };
            if let Some(bytes) = self.reassembly.take(part.place, part.bytes)
                && let Ok(datagram) = UdpDatagram::decode(bytes)
            {
                return Some(datagram);
            }
        }
    }
}
