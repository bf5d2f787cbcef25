//! Connections that begin with TLS: their bytes pass untouched.
use std::{io, time::Duration};

use bytes::BytesMut;
use http::HeaderMap;
use longhaul_http::client_hello::ClientHello;
use tokio::{
    io::AsyncReadExt as _,
    time::{Instant, timeout_at},
};

use super::{
    destination::Destination,
    interception::{Interception, literal},
};
use crate::{
    Clientless,
    access::Admitted,
    connect::{self, TunnelKind, TunnelRequest},
    fetch::ConnectionState,
    stream::PacedStream,
};

#[cfg(test)]
mod tests;

/// Time for the client's first message: some round trips of the slowest links.
const HELLO_TIME: Duration = Duration::from_secs(60);
/// Port of https.
const HTTPS: u16 = 443;
/// Bytes that are read at once.
const READ: usize = 16 * 1024;

/// Relays a connection whose first bytes are in `buffer` to its end.
pub(super) async fn serve(
    connection: &ConnectionState,
    mut interception: Interception,
    mut stream: PacedStream,
    mut buffer: BytesMut,
) {
    let Ok(hello) = hello(&mut stream, &mut buffer).await else {
        return;
    };
    let host = host(&connection.shared, &mut interception, hello.as_ref()).await;
    let Some((host, port)) = host else {
        return connect::break_off(stream);
    };
    let admitted = Admitted::Unnamed;
    let request = TunnelRequest {
        client: connection.client(&admitted, &mut HeaderMap::new()),
        admitted,
        host,
        port,
        kind: TunnelKind::Tls,
    };
    connect::serve(connection, request, stream, buffer.freeze()).await;
}

/// Reads the first message; `None` if the bytes are none, or if it does not come in time.
async fn hello(stream: &mut PacedStream, buffer: &mut BytesMut) -> io::Result<Option<ClientHello>> {
    let until = Instant::now() + HELLO_TIME;
    loop {
        match ClientHello::parse(buffer) {
            Ok(Some(hello)) => return Ok(Some(hello)),
            Err(_) => return Ok(None),
            Ok(None) => {}
        }
        buffer.reserve(READ);
        match timeout_at(until, stream.read_buf(buffer)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0)) | Err(_) => return Ok(None),
            Ok(Err(error)) => return Err(error),
        }
    }
}

/// The host to which the bytes go: the one that the client names, by the fastest of its addresses, if the destination is
/// one of them; otherwise the destination. With Encrypted Client Hello the name may not be the real one.
async fn host(
    shared: &Clientless,
    interception: &mut Interception,
    hello: Option<&ClientHello>,
) -> Option<(String, u16)> {
    let Destination::Elsewhere(address) = interception.destination else {
        // A name of this gateway's name server, which gives out no keys of Encrypted Client Hello.
        let name = hello?.server_name.as_ref()?;
        return shared.names.contains(name).then(|| (name.clone(), HTTPS));
    };
    let hello = hello.filter(|hello| !hello.has_encrypted);
    let name = hello.and_then(|hello| hello.server_name.as_ref());
    if let Some(name) = name
        && interception.is_at(shared, name, address.port(), address).await
    {
        return Some((name.clone(), address.port()));
    }
    Some(literal(address))
}
