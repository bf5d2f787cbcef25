//! Two hosts of one origin, one accelerated and one tunnelled, over a hop with outages.
use std::{convert::Infallible, io, net::SocketAddr};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, combinators::UnsyncBoxBody};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_tests::{
    authority::TestAuthority,
    relay::{Direction, Passage},
};
use tokio::time::timeout;

use super::Accelerated;
use crate::pair::{LIMIT, Link, Setup};

/// The accelerated host; `PLAIN` is tunnelled.
pub(super) const FAST: &str = "fast.test";
pub(super) const PLAIN: &str = "plain.test";
pub(super) const HOSTS: [&str; 2] = [FAST, PLAIN];

/// Body of a request.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A pair that resolves both hosts to this address, with a relay between agent and gateway.
pub(super) async fn pair_with_relay(authority: &TestAuthority, origin: SocketAddr) -> Result<Accelerated> {
    let names = HOSTS.map(|host| (host, origin));
    let set = |setup: &mut Setup| setup.link = Link::Relayed;
    Accelerated::start_with(&names, authority, FAST, set).await
}

/// A client of one host: HTTP/2 with the agent for `FAST`, HTTP/1.1 with the origin for `PLAIN`.
pub(super) enum Client {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Client {
    pub(super) async fn connect(site: &Accelerated, authority: &TestAuthority, host: &str) -> Result<Self> {
        if host == FAST {
            let stream = site
                .connect(host, &site.exported_authority().await?, &[b"h2"])
                .await?;
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Self::Http2(sender));
        }
        let stream = site.connect(host, authority.pem(), &[b"http/1.1"]).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    pub(super) async fn send(
        &mut self,
        request: http::request::Builder,
        host: &str,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>> {
        let sent = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                let request = request.uri(path).header(header::HOST, host).body(body)?;
                timeout(3 * LIMIT, sender.send_request(request)).await
            }
            Self::Http2(sender) => {
                let request = request.uri(format!("https://{host}{path}")).body(body)?;
                timeout(3 * LIMIT, sender.send_request(request)).await
            }
        };
        Ok(sent.context("no answer")??)
    }

    pub(super) async fn get(&mut self, host: &str, path: &str) -> Result<Response<Incoming>> {
        self.send(Request::get("/"), host, path, empty_body()).await
    }
}

/// An empty request body.
pub(super) fn empty_body() -> Body {
    Empty::new()
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Blocks the hop, runs `meanwhile`, and opens the hop again when the agent has noticed the outage.
pub(super) async fn outage(site: &Accelerated, meanwhile: impl Future<Output = Result<()>>) -> Result<()> {
    let relay = site.pair.relay();
    for direction in [Direction::Down, Direction::Up] {
        relay.set(direction, Passage::Blocked);
    }
    meanwhile.await?;
    // A request in progress makes the agent notice the outage sooner.
    let asks = site.pair.get("http://nobody.invalid/");
    let ends = async {
        site.pair
            .status_until(|status| status["state"] == "stalled")
            .await?;
        for direction in [Direction::Down, Direction::Up] {
            relay.set(direction, Passage::Open);
        }
        Ok(())
    };
    let (answered, ()) = tokio::try_join!(asks, ends)?;
    ensure!(answered.status == 502, "{answered:?}");
    Ok(())
}
