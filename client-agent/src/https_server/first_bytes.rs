//! Classification of the first bytes that a browser sends in a tunnel: TLS or not, the host name and the
//! protocols.
use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use longhaul_http::client_hello::ClientHello;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

use crate::https::HelloShape;

/// Time after which a silent client counts as slow. A client that waits for the server's first bytes does not
/// use TLS, but a TLS client on a busy machine may be slow, too.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// All bytes that the client has sent so far, and their classification.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FirstBytes {
    pub(super) bytes: Bytes,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A ClientHello (RFC 8446 section 4.1.2).
    Hello {
        /// The host in the server name extension, if present.
        name: Option<String>,
        /// True if ALPN offers HTTP/1.1 or HTTP/2.
        speaks_http: bool,
        /// Algorithms by which programs are told apart.
        shape: HelloShape,
    },
    /// Another protocol.
    Other,
    /// No byte before the timeout, or an incomplete ClientHello.
    Slow,
    /// The client closed the connection without sending a byte.
    Gone,
}

/// Reads until the first bytes are classified.
pub(super) async fn read<R: AsyncRead + Unpin>(client: &mut R) -> io::Result<FirstBytes> {
    let mut bytes = BytesMut::new();
    let kind = loop {
        let before = bytes.len();
        match timeout(SILENCE_TIMEOUT, client.read_buf(&mut bytes)).await {
            Ok(Ok(0)) if before == 0 => break Kind::Gone,
            Ok(Ok(0)) | Err(_) => break Kind::Slow,
            Ok(read) => read?,
        };
        match ClientHello::parse(&bytes) {
            Ok(None) => {}
            Err(_) => break Kind::Other,
            Ok(Some(hello)) => {
                break Kind::Hello {
                    speaks_http: hello.speaks_http(),
                    shape: HelloShape::of(&hello),
                    name: hello.server_name,
                };
            }
        }
    };
    Ok(FirstBytes {
        bytes: bytes.freeze(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn kind(said: &[u8], leaves: bool) -> Kind {
        let (mut client, mut ours) = tokio::io::duplex(1024);
        client.write_all(said).await.unwrap();
        let client = (!leaves).then_some(client);
        let first = read(&mut ours).await.unwrap();
        assert_eq!(first.bytes, said);
        drop(client);
        first.kind
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_client_hello_is_slow_and_not_another_protocol() {
        // The beginning of a TLS handshake record with a ClientHello of 508 bytes.
        let part = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        assert_eq!(kind(b"", true).await, Kind::Gone);
        assert_eq!(kind(b"", false).await, Kind::Slow);
        assert_eq!(kind(&part, true).await, Kind::Slow);
        assert_eq!(kind(&part, false).await, Kind::Slow);
        assert_eq!(kind(b"SSH-2.0-x\r\n", false).await, Kind::Other);
        // A handshake that begins with a ServerHello.
        assert_eq!(kind(&[0x16, 3, 1, 0, 4, 2, 0, 0, 0], false).await, Kind::Other);
    }
}
