//! What becomes of the requests of an intercepted connection.
//!
//! A client can name any host in a request and send it to any address. A response goes through the cache only if the
//! destination is an address of the host, by the gateway's own resolver; otherwise, whoever controls one address could put
//! what it likes into the cache of all clients (host forgery).
use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use http::{
    HeaderMap,
    header::{HOST, UPGRADE},
    uri::{Authority, PathAndQuery},
};
use longhaul_gateway_core::admin::clientless_counters::Intercepted;
use longhaul_http::target::{self, Scheme, Target};
use longhaul_origin::ConnectionOwner;
use longhaul_types::Pii;
use tracing::debug;

use super::destination::Destination;
use crate::{
    Clientless,
    head::{RequestHead, RequestTarget},
};

/// An intercepted connection.
pub(crate) struct Interception {
    pub(super) destination: Destination,
    /// Address of the client, and owner of what is done for it.
    pub(super) client: (IpAddr, ConnectionOwner),
    /// The host and port that were found at the destination last: most connections name one host.
    verified: Option<(String, u16)>,
}

/// What becomes of a request.
pub(crate) enum Judged {
    /// It is fetched, perhaps from the cache.
    Fetch(RequestHead),
    /// Its connection is relayed to this host and port, from this request on.
    Relay(RequestHead, (String, u16)),
    /// It is refused: the client connected to the gateway itself.
    Refuse(RequestHead),
}

impl Interception {
    pub(super) const fn new(destination: Destination, client: (IpAddr, ConnectionOwner)) -> Self {
        Self {
            destination,
            client,
            verified: None,
        }
    }

    /// Where bytes go that are not a request of HTTP.
    pub(crate) fn untold(&self) -> Option<(String, u16)> {
        match self.destination {
            Destination::Elsewhere(address) => Some(literal(address)),
            Destination::Gateway => None,
        }
    }

    /// Decides about a request.
    pub(crate) async fn judge(&mut self, shared: &Clientless, head: RequestHead) -> Judged {
        // Otherwise another protocol follows, or the client takes the destination for a proxy.
        let is_http = !head.headers.contains_key(UPGRADE);
        let target = target_of(&head);
        let address = match (self.destination, target.as_ref()) {
            (Destination::Elsewhere(address), _) => address,
            // A name of this gateway's name server.
            (Destination::Gateway, Some(to))
                if shared.names.contains(&to.host) && shared.config.ports.contains(to.port) =>
            {
                let (host, port) = (to.host.clone(), to.port);
                return match target.filter(|_| is_http) {
                    Some(target) => fetch(shared, head, target),
                    None => Judged::Relay(head, (host, port)),
                };
            }
            (Destination::Gateway, _) => return Judged::Refuse(head),
        };
        // The relay refuses other ports.
        let is_served = is_http && shared.config.ports.contains(address.port());
        let Some(target) = target.filter(|_| is_served) else {
            return Judged::Relay(head, literal(address));
        };
        if !self.is_at(shared, &target.host, target.port, address).await {
            debug!(host = ?Pii(&target.host), "the host of a request is not at its destination");
            return Judged::Relay(head, literal(address));
        }
        fetch(shared, head, target)
    }

    /// Returns true if this is an address of the host.
    pub(super) async fn is_at(
        &mut self,
        shared: &Clientless,
        host: &str,
        port: u16,
        address: SocketAddr,
    ) -> bool {
        let is_known = |(known, of): &(String, u16)| known == host && *of == port;
        if self.verified.as_ref().is_some_and(is_known) {
            return true;
        }
        let (client, owner) = self.client;
        if !shared.look_ups.permit(client, Instant::now()) {
            return false;
        }
        let found = shared.gateway.origin.addresses(host, port, owner).await;
        let is_at = found.is_ok_and(|found| found.contains(&address));
        if is_at {
            self.verified = Some((host.to_owned(), port));
        }
        is_at
    }
}

fn fetch(shared: &Clientless, head: RequestHead, target: Target) -> Judged {
    shared.counters.intercepted(Intercepted::Fetched);
    Judged::Fetch(RequestHead {
        target: RequestTarget::Origin(target),
        ..head
    })
}

/// An address as the host of a tunnel.
pub(super) fn literal(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

/// The target of a request in origin form, whose host is in `Host`, or in absolute form; `None` if another server might
/// understand another target.
fn target_of(head: &RequestHead) -> Option<Target> {
    match &head.target {
        RequestTarget::Origin(target) => Some(target.clone()),
        RequestTarget::Tunnel(..) => None,
        RequestTarget::Proxy(path) => {
            let (host, port) = host(&head.headers)?;
            let scheme = Scheme::Http;
            let path: PathAndQuery = path.parse().ok()?;
            path.as_str().starts_with('/').then(|| Target {
                scheme,
                host,
                port: port.unwrap_or_else(|| scheme.port()),
                path,
            })
        }
    }
}

/// The host and port in the field `Host`, if there is one such field.
fn host(headers: &HeaderMap) -> Option<(String, Option<u16>)> {
    let mut values = headers.get_all(HOST).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let authority: Authority = value.to_str().ok()?.parse().ok()?;
    target::host_and_port(&authority).ok()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::{
        client::unnamed_connections,
        head::HeadReader,
        tests::{LOCAL, Proxy},
    };

    fn url(request: &str) -> Option<String> {
        let mut bytes = BytesMut::from(request.as_bytes());
        let head = HeadReader::default().next(&mut bytes).ok()??;
        Some(target_of(&head)?.url())
    }

    #[test]
    fn the_target_is_the_path_at_the_named_host() {
        for (request, expected) in [
            (
                "GET /x?y=//z HTTP/1.1\r\nHost: A.test\r\n\r\n",
                Some("http://a.test/x?y=//z"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n",
                Some("http://a.test:8080/"),
            ),
            (
                "GET / HTTP/1.1\r\nHost: [2001:DB8::1]\r\n\r\n",
                Some("http://[2001:db8::1]/"),
            ),
            (
                "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
                Some("http://a.test/"),
            ),
            // Another server could take another host.
            ("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: a.test/b\r\n\r\n", None),
            ("GET / HTTP/1.1\r\nHost: user@a.test\r\n\r\n", None),
            ("GET / HTTP/1.1\r\n\r\n", None),
            ("GET / HTTP/1.0\r\n\r\n", None),
            ("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", None),
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", None),
        ] {
            assert_eq!(url(request).as_deref(), expected, "{request}");
        }
    }

    /// A connection of a client of this machine.
    fn intercepted(proxy: &Proxy, to: Option<&str>) -> Interception {
        let to = to.map(|to| Destination::Elsewhere(to.parse().unwrap()));
        let owner = unnamed_connections(LOCAL, &proxy.shared.shares);
        Interception::new(to.unwrap_or(Destination::Gateway), (LOCAL, owner))
    }

    /// What becomes of a request with these fields.
    async fn judge(proxy: &Proxy, interception: &mut Interception, fields: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
        let mut bytes = BytesMut::from(request.as_bytes());
        let head = HeadReader::default().next(&mut bytes).unwrap().unwrap();
        match interception.judge(&proxy.shared, head).await {
            Judged::Fetch(RequestHead {
                target: RequestTarget::Origin(target),
                ..
            }) => target.url(),
            Judged::Fetch(head) => panic!("{head:?}"),
            Judged::Relay(_, (host, port)) => format!("relay {host} {port}"),
            Judged::Refuse(_) => "refuse".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_request_is_fetched_only_if_its_host_is_at_its_destination() {
        let proxy = Proxy::new(|flags| flags);
        for (to, fields, expected) in [
            ("127.0.0.1:8080", "Host: a.test:8080", "http://a.test:8080/"),
            ("127.0.0.1:80", "Host: a.test", "http://a.test/"),
            // Another port, another address.
            ("127.0.0.1:8080", "Host: a.test:8081", "relay 127.0.0.1 8080"),
            ("127.0.0.1:8080", "Host: a.test", "relay 127.0.0.1 8080"),
            ("127.0.0.9:8080", "Host: a.test:8080", "relay 127.0.0.9 8080"),
            ("127.0.0.1:8080", "Host: 192.0.2.1:8080", "relay 127.0.0.1 8080"),
            // Another protocol follows.
            (
                "127.0.0.1:8080",
                "Host: a.test:8080\r\nUpgrade: websocket",
                "relay 127.0.0.1 8080",
            ),
            // A port that no client may reach: the relay refuses it.
            ("127.0.0.1:25", "Host: a.test:25", "relay 127.0.0.1 25"),
        ] {
            let mut interception = intercepted(&proxy, Some(to));
            assert_eq!(
                judge(&proxy, &mut interception, fields).await,
                expected,
                "{to} {fields}"
            );
            let untold = to.parse().map(literal).unwrap();
            assert_eq!(interception.untold(), Some(untold));
        }
    }

    #[tokio::test]
    async fn the_gateway_itself_answers_only_for_its_boosted_names() {
        let proxy = Proxy::with_names("site.test,*.boosted.test");
        for (fields, expected) in [
            ("Host: site.test", "http://site.test/"),
            ("Host: a.boosted.test:8080", "http://a.boosted.test:8080/"),
            ("Host: site.test\r\nUpgrade: websocket", "relay site.test 80"),
            ("Host: site.test:25", "refuse"),
            ("Host: other.test", "refuse"),
            ("Host: other.test\r\nUpgrade: websocket", "refuse"),
            ("Host: 127.0.0.1", "refuse"),
        ] {
            let mut interception = intercepted(&proxy, None);
            assert_eq!(
                judge(&proxy, &mut interception, fields).await,
                expected,
                "{fields}"
            );
            // Bytes that are not a request go nowhere.
            assert_eq!(interception.untold(), None);
        }
    }

    #[tokio::test]
    async fn a_host_that_was_found_at_the_destination_needs_no_further_look_up() {
        let proxy = Proxy::new(|flags| flags);
        let mut interception = intercepted(&proxy, Some("127.0.0.1:8080"));
        let found = judge(&proxy, &mut interception, "Host: a.test:8080").await;
        assert_eq!(found, "http://a.test:8080/");
        // That says nothing of another host at the same port, or of another port.
        for other in ["Host: 192.0.2.1:8080", "Host: a.test:8081", "Host: 192.0.2.1"] {
            let judged = judge(&proxy, &mut interception, other).await;
            assert_eq!(judged, "relay 127.0.0.1 8080", "{other}");
        }
        // Uses up the client's look-ups of an hour later, so that none are added during the test.
        let later = Instant::now() + std::time::Duration::from_secs(3600);
        while proxy.shared.look_ups.permit(LOCAL, later) {}
        let known = judge(&proxy, &mut interception, "Host: a.test:8080").await;
        assert_eq!(known, "http://a.test:8080/");
        let mut unknown = intercepted(&proxy, Some("127.0.0.1:8080"));
        let judged = judge(&proxy, &mut unknown, "Host: a.test:8080").await;
        assert_eq!(judged, "relay 127.0.0.1 8080");
    }
}
