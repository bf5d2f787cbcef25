//! Who asks: a device, and what its request says of its client, its page's site and its credentials.
use http::{HeaderMap, Method};
use longhaul_cache::{Owner, Partition};
use longhaul_http::request_context::{CredentialsSecret, RequestContext};
use longhaul_types::{ClientId, PublicKey};
use url::Url;

/// Who asks for something. Whatever looks up or keeps what is private takes one.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    device: PublicKey,
    context: RequestContext,
}

impl Asker {
    /// Judges a browser's request, or the one that it is expected to make, by its own fields.
    pub(crate) fn of(
        (device, client): (PublicKey, ClientId),
        secret: &CredentialsSecret,
        method: &Method,
        url: &str,
        browser: &HeaderMap,
    ) -> Self {
        // As `RequestContext::of` wants it. What is no URL has no site.
        let normal = Url::parse(url).ok();
        let url = normal.as_ref().map_or(url, Url::as_str);
        Self {
            device,
            context: RequestContext::of(client, secret, method, url, browser),
        }
    }

    /// The same for a request that came from nobody knows where: in a frame of another site.
    pub(crate) fn without_partition(self) -> Self {
        Self {
            context: self.context.without_partition(),
            ..self
        }
    }

    pub(crate) const fn device(&self) -> &PublicKey {
        &self.device
    }

    pub(crate) const fn context(&self) -> &RequestContext {
        &self.context
    }

    /// Whose everything private is.
    pub(crate) const fn owner(&self) -> Owner {
        Owner::of_device(&self.device, self.context.client())
    }

    /// Where what is private is looked up and kept; nowhere if nobody knows for which site it is asked.
    pub(crate) fn partition(&self) -> Option<Partition> {
        Partition::of_device(&self.device, &self.context)
    }
}
