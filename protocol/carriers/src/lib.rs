//! Carriers of Longhaul packets for networks that block UDP (docs/protocol/transport.md section 8).
//!
//! `tls` is a WebSocket over TLS on a TCP port, `quic` a QUIC connection of datagrams. [`TlsCarrier`] and
//! [`QuicCarrier`] open links for an agent, [`TlsListener`] and [`QuicListener`] accept them at a gateway; all pass the
//! packets to the driver of the session (`longhaul_driver`), which treats a link as another path to the peer.
//!
//! TLS proves nothing here: the agent accepts each certificate, because the handshake of the packets inside
//! authenticates the gateway. A network that intercepts TLS sees the ciphertext of these packets; [`Certificates`] tells
//! the agent that it does.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bare_link;
mod dialer;
pub mod framing;
mod identity;
mod limits;
mod listener;
mod pin;
mod pump;
mod quic;
mod race;
mod shared_port;
#[cfg(target_os = "linux")]
mod tcp_linux;
#[cfg(not(target_os = "linux"))]
mod tcp_portable;
#[cfg(target_os = "linux")]
mod tcp_sender;
pub mod upgrade;

#[cfg(target_os = "linux")]
use tcp_linux as tcp;
#[cfg(not(target_os = "linux"))]
use tcp_portable as tcp;

pub use bare_link::BareLink;
pub use dialer::{CarrierError, LinkAttempt, TlsCarrier, any_certificate};
pub use identity::{Identity, IdentityError, PemIdentity};
pub use listener::{BindError, TlsListener};
pub use pin::{Certificates, KeyPin, PinPolicy};
pub use pump::PumpError;
pub use quic::{QuicCarrier, QuicListener, QuicRenewal, QuicServer};
pub use shared_port::{
    CANDIDATE_TIME, Candidate, FirstRequest, LinkRequest, LinkSocket, LinkUpgrades, UpgradedLinks,
    shared_port,
};
