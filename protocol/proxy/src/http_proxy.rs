//! A proxy in use.
use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{
    Credentials, Exceptions, ProxyUrl,
    answer::{self, Answer, MAX_HEAD},
    error::ProxyError,
};

/// Time for the lookup of the proxy's name and the connection to it: a proxy is in the local network.
const REACH_TIME: Duration = Duration::from_secs(6);
/// Time for the answer, within which the proxy connects to the host.
const ANSWER_TIME: Duration = Duration::from_secs(12);
/// Longest duration of [`HttpProxy::tunnel`].
pub const LONGEST: Duration = Duration::from_secs(18);

/// An HTTP proxy and the hosts that are reached through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    url: ProxyUrl,
    except: Exceptions,
    /// Ports on this computer that are no proxy for the user of this one.
    own_ports: Vec<u16>,
}

impl HttpProxy {
    /// A proxy for all hosts but the exceptions.
    pub const fn new(url: ProxyUrl, except: Exceptions) -> Self {
        Self {
            url,
            except,
            own_ports: Vec::new(),
        }
    }

    /// The same proxy with these credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        let url = self.url.with_credentials(credentials);
        Self { url, ..self }
    }

    /// The same proxy, which is not at these ports of this computer: they belong to the user itself.
    #[must_use]
    pub fn not_at(self, own_ports: Vec<u16>) -> Self {
        Self { own_ports, ..self }
    }

    /// Its address.
    pub const fn url(&self) -> &ProxyUrl {
        &self.url
    }

    /// The value of `Proxy-Authorization`, if there are credentials.
    pub fn authorization(&self) -> Option<String> {
        self.url.credentials().map(Credentials::authorization)
    }

    /// True if `host` is reached through the proxy.
    pub fn covers(&self, host: &str, port: u16) -> bool {
        !self.except.contain(host, port)
    }

    /// True if the proxy is plainly one of these ports of this computer. A name that leads here is found out when it
    /// is connected to.
    pub fn is_at(&self, own_ports: &[u16]) -> bool {
        let address: Option<std::net::IpAddr> = self.url.host().parse().ok();
        let is_here = address.map_or_else(|| self.url.host() == "localhost", |address| address.is_loopback());
        is_here && own_ports.contains(&self.url.port())
    }

    /// Looks up the addresses of the proxy.
    ///
    /// # Errors
    /// The name servers give none.
    pub async fn addresses(&self) -> Result<Vec<SocketAddr>, ProxyError> {
        let unknown = |error: io::Error| ProxyError::NotReached(error.to_string());
        let lookup = lookup_host((self.url.host(), self.url.port()));
        let found = timeout(REACH_TIME, lookup).await;
        let found =
            found.map_err(|_| ProxyError::NotReached("no answer from the name servers".to_owned()))?;
        Ok(found.map_err(unknown)?.collect())
    }

    /// Connects to the proxy itself, for requests that name their host in absolute form.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn connect(&self) -> Result<TcpStream, ProxyError> {
        let connecting = TcpStream::connect((self.url.host(), self.url.port()));
        let connected = match timeout(REACH_TIME, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let stream = connected.map_err(|error| ProxyError::NotReached(error.to_string()))?;
        if self.is_own(&stream) {
            return Err(ProxyError::Agent);
        }
        Ok(stream)
    }

    /// Opens a connection to a host, a name or an address without brackets. Takes at most [`LONGEST`].
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn tunnel(&self, host: &str, port: u16) -> Result<TcpStream, ProxyError> {
        let mut stream = self.connect().await?;
        let opened = timeout(ANSWER_TIME, self.ask(&mut stream, host, port)).await;
        opened.map_err(|_| ProxyError::Silent)??;
        Ok(stream)
    }

    async fn ask(&self, stream: &mut TcpStream, host: &str, port: u16) -> Result<(), ProxyError> {
        let ended = |_: io::Error| ProxyError::NotAProxy(None);
        let request = self.request(host, port);
        stream.write_all(request.as_bytes()).await.map_err(ended)?;
        let has_credentials = self.url.credentials().is_some();
        let mut head = Vec::with_capacity(512);
        let mut next = [0; 1024];
        loop {
            // What follows the head belongs to the tunnel: it stays in the socket.
            let room = next.len().min(MAX_HEAD - head.len());
            let seen = stream.peek(&mut next[..room]).await.map_err(ended)?;
            if seen == 0 {
                return Err(ProxyError::NotAProxy(None));
            }
            let before = head.len();
            head.extend_from_slice(&next[..seen]);
            let answer = answer::parse(&head, has_credentials)?;
            let of_head = match answer {
                Answer::Partial => seen,
                Answer::Open(length) => length.saturating_sub(before),
            };
            stream.read_exact(&mut next[..of_head]).await.map_err(ended)?;
            if matches!(answer, Answer::Open(_)) {
                return Ok(());
            }
        }
    }

    fn request(&self, host: &str, port: u16) -> String {
        let authority = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(authorization) = self.authorization() {
            request.push_str("Proxy-Authorization: ");
            request.push_str(&authorization);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        request
    }

    /// True if a connection leads to one of the own ports: both ends have the same address then.
    fn is_own(&self, stream: &TcpStream) -> bool {
        let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
            return false;
        };
        let is_here = local.ip() == peer.ip() || peer.ip().to_canonical().is_loopback();
        is_here && self.own_ports.contains(&peer.port())
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy that answers with these pieces, one write each.
    async fn answering(pieces: &'static [&'static str]) -> (HttpProxy, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let url: ProxyUrl = format!("http://anna:secret@{address}").parse().unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.set_nodelay(true).unwrap();
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            // The client may be gone already.
            let _gone = stream.shutdown().await;
            String::from_utf8(request).unwrap()
        });
        (HttpProxy::new(url, Exceptions::default()), served)
    }

    #[tokio::test]
    async fn a_tunnel_begins_behind_the_head() {
        let (proxy, served) =
            answering(&["HTTP/1.1 20", "0 OK\r\nVia: x\r\n", "\r\nSSH-2.0", "-x\r\n"]).await;
        let mut tunnel = proxy.tunnel("2001:db8::1", 22).await.unwrap();
        let mut text = String::new();
        tunnel.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "SSH-2.0-x\r\n");
        assert_eq!(
            served.await.unwrap(),
            "CONNECT [2001:db8::1]:22 HTTP/1.1\r\nHost: [2001:db8::1]:22\r\n\
             Proxy-Authorization: Basic YW5uYTpzZWNyZXQ=\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn what_is_wrong_is_told() {
        for (pieces, kind) in [
            (&["HTTP/1.1 407 x\r\n\r\n"][..], "proxy_credentials"),
            (&["HTTP/1.1 403 x\r\n\r\n"], "proxy_forbids"),
            (&["HTTP/1.0 503 x\r\n\r\n"], "proxy_no_way"),
            (&["HTTP/1.1 200 x\r\n"], "proxy_not_a_proxy"),
            (&["220 smtp\r\n"], "proxy_not_a_proxy"),
        ] {
            let (proxy, served) = answering(pieces).await;
            assert_eq!(proxy.tunnel("gw.test", 443).await.unwrap_err().kind(), kind);
            served.await.unwrap();
        }
        let free = TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let nobody = HttpProxy::new(format!("http://{free}").parse().unwrap(), Exceptions::default());
        let refused = nobody.tunnel("gw.test", 443).await.unwrap_err();
        assert_eq!(refused.kind(), "proxy_not_reached", "{refused}");
    }

    #[tokio::test]
    async fn the_agent_itself_is_no_proxy() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url: ProxyUrl = format!("http://127.0.0.1:{port}").parse().unwrap();
        let proxy = HttpProxy::new(url, Exceptions::default());
        assert!(proxy.is_at(&[port]) && !proxy.is_at(&[port - 1]));
        let proxy = proxy.not_at(vec![port]);
        assert_eq!(proxy.tunnel("gw.test", 443).await.unwrap_err(), ProxyError::Agent);
    }
}
