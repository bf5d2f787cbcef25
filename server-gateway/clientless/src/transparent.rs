//! Transparent mode: connections that the system redirects to this gateway, from clients that know of no proxy.
//!
//! `destination` asks the system where a connection was to go, `interception` decides about the requests of HTTP, and `tls`
//! relays what begins with TLS. `rules` is the text that makes nftables redirect connections.
mod destination;
mod interception;
mod rules;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;

use bytes::BytesMut;
use longhaul_gateway_core::{admin::clientless_counters::Intercepted, logins::Logins};
use parking_lot::Mutex;
use tokio::{io::AsyncReadExt as _, time::timeout};

use self::destination::Destination;
pub(super) use self::interception::{Interception, Judged};
pub use self::rules::{RulesError, redirect_rules};
use super::{
    Clientless,
    access::{Denied, Peer},
    admission::UNUSED_TIME,
    client::unnamed_connections,
    connect,
    connection::{self, Arriving},
    fetch::ConnectionState,
    stream::PacedStream,
};

/// Bytes that are read at once.
const READ: usize = 16 * 1024;
/// Type of the record with which TLS begins.
const HANDSHAKE: u8 = 22;
/// Maximum length of a method: longer ones are another protocol.
const MAX_METHOD: usize = 32;

/// Serves a redirected connection to its end.
pub(super) async fn serve(shared: Arc<Clientless>, mut stream: PacedStream, peer: Peer) {
    let destination = Destination::of(&stream.tcp(), &shared.names);
    let denied = match shared.access.admit_intercepted(peer.address) {
        Err(denied) => Some(denied),
        Ok(()) if destination == Destination::Gateway && shared.names.is_empty() => Some(Denied::Straight),
        Ok(()) => None,
    };
    if let Some(denied) = denied {
        shared.self_check.note_refused();
        shared.counters.denied(denied.name());
        return connect::break_off(stream);
    }
    let mut buffer = BytesMut::with_capacity(READ);
    let first_time = shared.config.idle_timeout.min(UNUSED_TIME);
    let first = timeout(first_time, stream.read_buf(&mut buffer)).await;
    if !matches!(first, Ok(Ok(1..))) {
        return;
    }
    let of_client = unnamed_connections(peer.address, &shared.shares);
    let interception = Interception::new(destination, (peer.address, of_client));
    if buffer.first() == Some(&HANDSHAKE) || !may_be_http(&buffer) {
        shared.counters.intercepted(Intercepted::Tls);
        let connection = ConnectionState {
            shared,
            peer,
            logins: Logins::default(),
            browser: Mutex::default(),
        };
        return tls::serve(&connection, interception, stream, buffer).await;
    }
    let arriving = Arriving {
        buffer,
        interception: Some(interception),
    };
    connection::serve(shared, (stream, arriving), peer).await;
}

/// Returns true if a request of HTTP may begin with these bytes: a method, and a space.
fn may_be_http(bytes: &[u8]) -> bool {
    let is_in_method = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let method = bytes.iter().take_while(|byte| is_in_method(byte)).count();
    method <= MAX_METHOD && bytes.get(method).is_none_or(|byte| *byte == b' ')
}
