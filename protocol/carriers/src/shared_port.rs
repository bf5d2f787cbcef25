//! Links on a TCP port with TLS that also serves something else (docs/protocol/transport.md section 8.6).
//!
//! The owner of the port accepts the connections and performs the handshakes. A connection is a candidate for a link until
//! its first request is complete; [`LinkUpgrades`] reads this request, opens the link if it asks for one, and otherwise
//! gives back what it has read. The limits of [`crate::TlsListener`] hold for candidates.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_driver::LinkAcceptor;
use longhaul_types::PublicKey;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tracing::debug;

use crate::{
    limits::{Handshake, HandshakeLimits},
    listener::{ByteStream, HANDSHAKE_TIME, Opened, serve},
    tcp::TcpOptions,
    upgrade::{self, RequestHead},
};

/// Time for which a connection is a candidate for a link.
pub const CANDIDATE_TIME: Duration = HANDSHAKE_TIME;
/// Links that wait for the task that serves them.
const WAITING: usize = 64;
/// How the requests of links begin. The path is not compared before the request is complete: how long an incomplete
/// request is kept would tell it.
const BEGINNING: &[u8] = b"GET /";

/// Makes both ends of a shared port of the gateway with this public key, from which the path of links follows.
pub fn shared_port(gateway: PublicKey) -> (LinkUpgrades, UpgradedLinks) {
    let (sender, opened) = mpsc::channel(WAITING);
    let upgrades = LinkUpgrades {
        gateway,
        limits: HandshakeLimits::new(Instant::now()),
        opened: sender,
    };
    (upgrades, UpgradedLinks { opened })
}

/// The owner's end of a shared port. Clones share the limits.
#[derive(Clone, Debug)]
pub struct LinkUpgrades {
    gateway: PublicKey,
    limits: HandshakeLimits,
    opened: mpsc::Sender<UpgradedLink>,
}

/// A link that was opened.
#[derive(Debug)]
struct UpgradedLink {
    opened: Opened<Box<dyn ByteStream>>,
    peer: SocketAddr,
    options: TcpOptions,
}

/// A connection that may become a link. It counts among the handshakes until it is dropped.
#[derive(Debug)]
pub struct Candidate {
    until: Instant,
    _handshake: Handshake,
}

impl Candidate {
    /// From then on the connection is no candidate any more.
    pub const fn until(&self) -> Instant {
        self.until
    }
}

/// The options of a TCP connection that becomes a link.
#[derive(Debug)]
pub struct LinkSocket(TcpOptions);

impl LinkSocket {
    /// Sets the options of this connection.
    pub fn of(connection: &TcpStream) -> Self {
        Self(TcpOptions::of_accepted(connection))
    }
}

/// The first request of a connection.
#[derive(Debug)]
pub enum FirstRequest {
    /// It asks for a link.
    Link(LinkRequest),
    /// It is another one, or not complete in time. These bytes were read.
    Other(Vec<u8>),
}

/// A request for a link.
#[derive(Debug)]
pub struct LinkRequest {
    response: String,
    rest: Vec<u8>,
    first: Option<Vec<u8>>,
}

impl LinkUpgrades {
    /// Admits a connection as a candidate; `None` if there are too many.
    pub fn admit(&self, address: IpAddr) -> Option<Candidate> {
        let now = Instant::now();
        Some(Candidate {
            until: now + CANDIDATE_TIME,
            _handshake: self.limits.admit(now, address)?,
        })
    }

    /// Reads the first request of a candidate.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn read(
        &self,
        candidate: &Candidate,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<FirstRequest> {
        let mut head = Vec::with_capacity(2048);
        loop {
            let room = upgrade::MAX_HEAD.saturating_sub(head.len());
            let mut limited = (&mut *stream).take(room as u64);
            match timeout_at(candidate.until, limited.read_buf(&mut head)).await {
                Ok(Ok(1..)) if may_be_link(&head) => {}
                Ok(Err(error)) => return Err(error),
                Ok(Ok(_)) | Err(_) => return Ok(FirstRequest::Other(head)),
            }
            match upgrade::parse_request(&self.gateway, &head) {
                RequestHead::Partial => {}
                RequestHead::Other => return Ok(FirstRequest::Other(head)),
                RequestHead::Link {
                    length,
                    response,
                    first,
                } => {
                    let rest = head.split_off(length);
                    return Ok(FirstRequest::Link(LinkRequest {
                        response,
                        rest,
                        first,
                    }));
                }
            }
        }
    }

    /// Opens a link on the connection `stream` of `peer`.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn open<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        (candidate, request): (Candidate, LinkRequest),
        mut stream: S,
        LinkSocket(options): LinkSocket,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let LinkRequest {
            response,
            rest,
            first,
        } = request;
        let answer = async {
            stream.write_all(response.as_bytes()).await?;
            stream.flush().await
        };
        timeout_at(candidate.until, answer).await??;
        let stream: Box<dyn ByteStream> = Box::new(stream);
        let opened = Opened { stream, rest, first };
        let link = UpgradedLink {
            opened,
            peer,
            options,
        };
        // Without a task that serves links, the gateway is ending.
        let _ended = timeout_at(candidate.until, self.opened.send(link)).await;
        Ok(())
    }
}

/// Returns true if these bytes may be the beginning of a request for a link.
fn may_be_link(head: &[u8]) -> bool {
    let compared = head.len().min(BEGINNING.len());
    head[..compared] == BEGINNING[..compared]
}

/// The end of a shared port that serves the links.
#[derive(Debug)]
pub struct UpgradedLinks {
    opened: mpsc::Receiver<UpgradedLink>,
}

impl UpgradedLinks {
    /// Serves links until the future is dropped, which ends them.
    pub async fn run(mut self, links: LinkAcceptor) {
        // Bounded by the limits of candidates and, after them, of the driver's links.
        let mut connections = JoinSet::new();
        while let Some(UpgradedLink {
            opened,
            peer,
            options,
        }) = self.opened.recv().await
        {
            while connections.try_join_next().is_some() {}
            let links = links.clone();
            connections.spawn(async move { serve(opened, peer, &links, options).await });
        }
        debug!("the shared port has ended");
        while connections.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    fn upgrades() -> (LinkUpgrades, UpgradedLinks) {
        shared_port(SecretKey::from_bytes([7; 32]).public())
    }

    async fn first(bytes: &[u8]) -> FirstRequest {
        let (upgrades, _links) = upgrades();
        let candidate = upgrades.admit(IpAddr::from([192, 0, 2, 1])).unwrap();
        let mut stream = bytes;
        upgrades.read(&candidate, &mut stream).await.unwrap()
    }

    #[tokio::test]
    async fn other_requests_are_given_back_as_they_are() {
        let endless = [b"GET /".as_slice(), &[b'a'; 2 * upgrade::MAX_HEAD]].concat();
        for bytes in [
            b"CONNECT example.org:443 HTTP/1.1\r\n".as_slice(),
            b"GET http://example.org/ HTTP/1.1\r\n",
            b"GET /proxy.pac HTTP/1.1\r\nHost: gw.example.org\r\n\r\n",
            b"GET /incomp",
            b"G",
            b"",
            &endless,
        ] {
            let FirstRequest::Other(read) = first(bytes).await else {
                panic!("{bytes:?} opens no link");
            };
            assert_eq!(read, &bytes[..bytes.len().min(upgrade::MAX_HEAD)]);
        }
    }

    #[tokio::test]
    async fn a_request_with_the_path_of_the_gateway_opens_a_link() {
        let gateway = SecretKey::from_bytes([7; 32]).public();
        let mut request = upgrade::request(&gateway, "gw.example.org", "dGhlIHNhbXBsZSBub25jZQ==", None);
        request.push_str("rest");
        let FirstRequest::Link(link) = first(request.as_bytes()).await else {
            panic!("{request}");
        };
        assert_eq!((link.rest.as_slice(), link.first), (b"rest".as_slice(), None));
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_request_is_a_candidate_for_a_limited_time() {
        let (upgrades, _links) = upgrades();
        let (mut client, mut stream) = tokio::io::duplex(64);
        client.write_all(b"GET /").await.unwrap();
        let candidate = upgrades.admit(IpAddr::from([192, 0, 2, 1])).unwrap();
        let begun = Instant::now();
        let FirstRequest::Other(read) = upgrades.read(&candidate, &mut stream).await.unwrap() else {
            panic!("a link without a request");
        };
        assert_eq!(
            (read.as_slice(), begun.elapsed()),
            (b"GET /".as_slice(), CANDIDATE_TIME)
        );
    }
}
