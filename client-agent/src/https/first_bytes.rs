//! What a browser says first in a tunnel: whether it is TLS, to whom, and in which protocols.
use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

/// How long a client may be silent. One that waits for the server to speak is not one of TLS.
const SILENCE: Duration = Duration::from_secs(2);
/// Longer hellos do not exist: with a post-quantum key share and a ticket they take about 2 KiB.
const MAX_HELLO: usize = 64 * 1024;

/// The first bytes of a client, all of them, and what they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FirstBytes {
    pub(super) bytes: Bytes,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A ClientHello (RFC 8446 section 4.1.2).
    Hello {
        /// The host that it names, if it does.
        name: Option<String>,
        /// Whether it offers HTTP/1.1 or HTTP/2.
        speaks_http: bool,
    },
    /// Something else, or nothing for a while.
    Other,
    /// The client left.
    Gone,
}

/// Reads until that is known.
pub(super) async fn read<R: AsyncRead + Unpin>(client: &mut R) -> io::Result<FirstBytes> {
    let mut acceptor = Acceptor::default();
    let mut bytes = BytesMut::new();
    let kind = loop {
        let before = bytes.len();
        match timeout(SILENCE, client.read_buf(&mut bytes)).await {
            Ok(Ok(0)) if before == 0 => break Kind::Gone,
            Ok(Ok(0)) | Err(_) => break Kind::Other,
            Ok(read) => read?,
        };
        // A TLS handshake record (RFC 8446 section 5.1).
        if bytes.first() != Some(&0x16) || bytes.len() > MAX_HELLO {
            break Kind::Other;
        }
        let mut new = bytes.get(before..).unwrap_or_default();
        while !new.is_empty() {
            if acceptor.read_tls(&mut new).is_err() {
                break;
            }
        }
        match acceptor.accept() {
            Ok(None) => {}
            Err(_) => break Kind::Other,
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let protocols = hello.alpn().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
                break Kind::Hello {
                    name: hello.server_name().map(str::to_ascii_lowercase),
                    speaks_http: protocols
                        .iter()
                        .any(|name| [&b"h2"[..], b"http/1.1"].contains(name)),
                };
            }
        }
    };
    Ok(FirstBytes {
        bytes: bytes.freeze(),
        kind,
    })
}
