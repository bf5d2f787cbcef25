//! Identity of a requester: the device and the request context (client, partition, credentials).
use http::{HeaderMap, Method};
use longhaul_cache::{Owner, Partition};
use longhaul_http::request_context::{CredentialsSecret, RequestContext};
use longhaul_origin::ConnectionOwner;
use longhaul_types::{ClientId, PublicKey};
use url::Url;

/// Device and request context of a request. Every lookup and store of private data requires a `RequesterIdentity`.
#[derive(Clone, Debug)]
pub struct RequesterIdentity {
    device: PublicKey,
    /// Set if the limits are those of a network.
    network: Option<PublicKey>,
    context: RequestContext,
}

impl RequesterIdentity {
    /// Derives the identity of a browser's request, or of a predicted request, from its fields.
    pub fn of(
        (device, client): (PublicKey, ClientId),
        secret: &CredentialsSecret,
        method: &Method,
        url: &str,
        browser: &HeaderMap,
    ) -> Self {
        // Normalised, as `RequestContext::of` requires. A string that is not a URL has no site.
        let normal = Url::parse(url).ok();
        let url = normal.as_ref().map_or(url, Url::as_str);
        Self {
            device,
            network: None,
            context: RequestContext::of(client, secret, method, url, browser),
        }
    }

    /// Removes the partition, for a request whose embedding site is unknown (a frame in another site's page).
    pub fn without_partition(self) -> Self {
        Self {
            context: self.context.without_partition(),
            ..self
        }
    }

    /// Takes the share of a network in all limits, instead of the device's. What belongs to the device does not change.
    #[must_use]
    pub fn in_network(self, network: PublicKey) -> Self {
        Self {
            network: Some(network),
            ..self
        }
    }

    /// True for a client that has the limits of its network.
    pub const fn is_of_network(&self) -> bool {
        self.network.is_some()
    }

    /// The device or network whose limits apply.
    pub fn share(&self) -> PublicKey {
        self.network.unwrap_or(self.device)
    }

    /// Owner of the request's connections to origins.
    pub const fn connection_owner(&self) -> ConnectionOwner {
        match self.network {
            Some(network) => ConnectionOwner::OfNetwork {
                client: self.device,
                network,
            },
            None => ConnectionOwner::Device(self.device),
        }
    }

    /// The device.
    pub const fn device(&self) -> &PublicKey {
        &self.device
    }

    /// The request context.
    pub const fn context(&self) -> &RequestContext {
        &self.context
    }

    /// Owner of the private data: the device and its client.
    pub const fn owner(&self) -> Owner {
        Owner::of_device(&self.device, self.context.client())
    }

    /// Partition of private data; `None` if the requesting site is unknown, so that nothing private is looked
    /// up or stored.
    pub fn partition(&self) -> Option<Partition> {
        Partition::of_device(&self.device, &self.context)
    }
}
