//! Tunnels to hosts of the local network.
use longhaul_origin::{ConnectionOwner, FetchError, OriginClient};
use tracing::debug;

use super::open::OpenTunnel;
use crate::{
    counters::Counters,
    pages::Failure,
    upstream::{
        Asker, Upstream,
        local::{is_local_host, is_name, may_be_known_here},
    },
};

/// The way of a tunnel past the gateway.
pub(super) struct LocalTunnel<'a> {
    upstream: &'a Upstream,
    counters: &'a Counters,
    host: &'a str,
    port: u16,
    asker: Asker,
    /// The local network was asked, or has no such host.
    is_tried: bool,
}

impl<'a> LocalTunnel<'a> {
    pub(super) const fn new(
        upstream: &'a Upstream,
        counters: &'a Counters,
        (host, port): (&'a str, u16),
        asker: Asker,
    ) -> Self {
        Self {
            upstream,
            counters,
            host,
            port,
            asker,
            is_tried: false,
        }
    }

    /// Opens a tunnel to a host that is local by its form, if this client may reach it.
    pub(super) async fn before_gateway(&mut self) -> Result<Option<OpenTunnel>, Failure> {
        if !self.asker.reaches_local_hosts() || !is_local_host(self.host) {
            return Ok(None);
        }
        self.is_tried = true;
        match self.open(&self.upstream.local).await {
            Ok(opened) => Ok(Some(opened)),
            // The gateway's operator may know the name.
            Err(FetchError::DnsNotFound | FetchError::DnsFailed(_)) => Ok(None),
            Err(error) => Err(Failure::Local(error)),
        }
    }

    /// Opens a tunnel to a host that the gateway did not find, if the name servers of this computer know it.
    pub(super) async fn instead_of_gateway(&self, failure: Failure) -> Result<OpenTunnel, Failure> {
        let is_unknown = matches!(&failure, Failure::Gateway { reason, .. } if may_be_known_here(*reason));
        let may_go_direct = self.upstream.rules.load().fallback_after.is_some();
        if self.is_tried || !is_unknown || !may_go_direct || !is_name(self.host) {
            return Err(failure);
        }
        let client = match self.asker {
            Asker::Program => &self.upstream.local,
            // An attacker may own the name, and have a page under it.
            Asker::LocalPage | Asker::Navigation | Asker::Foreign => &self.upstream.direct,
        };
        self.open(client).await.map_err(|error| {
            debug!(%error, "a host that the gateway does not find is not reached in the local network");
            failure
        })
    }

    async fn open(&self, client: &OriginClient) -> Result<OpenTunnel, FetchError> {
        let tunnel = client
            .connect_tcp(self.host, self.port, ConnectionOwner::Local)
            .await?;
        self.counters.direct_requests.increment();
        Ok(OpenTunnel::Direct(Box::new(tunnel.stream)))
    }
}
