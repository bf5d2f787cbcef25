//! What stands between the browser and the origins.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::loader::Loader;

/// A system under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// No proxy. The scripted browser: HTTP/1.1 with two persistent connections a host, identity coding, which is the
    /// papers' baseline. Chromium: HTTP/1.1 with its own six.
    Direct,
    /// No proxy, six connections a host.
    Direct6,
    /// No proxy, two connections a host, requests pipelined.
    DirectPipelined,
    /// No proxy, HTTP/1.0: a connection an object.
    DirectHttp10,
    /// No proxy, HTTP/2 over TLS.
    DirectH2,
    /// A proxy in the gateway's place that ends TCP and knows nothing of HTTP.
    TcpProxy,
    /// Squid in the gateway's place, its cache off.
    Squid,
    /// Squid in the gateway's place with its cache in memory.
    SquidCache,
    /// Longhaul's agent and gateway.
    Longhaul,
    /// The same with nothing pushed: each object is asked for by the browser and fetched for that.
    LonghaulNopush,
    /// The same with everything coded by Brotli 5 and WebP of quality 75, whatever the link.
    LonghaulFixed,
    /// The same with https accelerated, which otherwise passes as a tunnel. Generated pages are served over https then.
    LonghaulHttps,
}

impl System {
    /// All that this version can run.
    pub const ALL: [Self; 12] = [
        Self::Direct,
        Self::Direct6,
        Self::DirectPipelined,
        Self::DirectHttp10,
        Self::DirectH2,
        Self::TcpProxy,
        Self::Squid,
        Self::SquidCache,
        Self::Longhaul,
        Self::LonghaulNopush,
        Self::LonghaulFixed,
        Self::LonghaulHttps,
    ];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Direct6 => "direct-6",
            Self::DirectPipelined => "direct-pipelined",
            Self::DirectHttp10 => "direct-http10",
            Self::DirectH2 => "direct-h2",
            Self::TcpProxy => "tcp-proxy",
            Self::Squid => "squid",
            Self::SquidCache => "squid-cache",
            Self::Longhaul => "longhaul",
            Self::LonghaulNopush => "longhaul-nopush",
            Self::LonghaulFixed => "longhaul-fixed",
            Self::LonghaulHttps => "longhaul-https",
        }
    }

    /// Why this loader cannot load pages with this system, if it cannot.
    pub fn refuses(self, loader: Loader) -> Option<&'static str> {
        match (self, loader) {
            (Self::DirectH2, Loader::Model) => Some("the scripted browser speaks no HTTP/2"),
            (Self::Direct6 | Self::DirectPipelined | Self::DirectHttp10, Loader::Chromium) => {
                Some("Chromium keeps its own rules for connections; use `direct`")
            }
            _ => None,
        }
    }

    /// Whether pages are served over https although they are recorded or generated as http.
    pub fn needs_tls(self) -> bool {
        matches!(self, Self::DirectH2 | Self::LonghaulHttps)
    }

    /// Whether Chromium may use HTTP/2. Between browser and origin that is a system of its own; with Longhaul it stays
    /// inside a tunnel or on the device, and is what users have.
    pub fn allows_http2(self) -> bool {
        self == Self::DirectH2 || self.is_longhaul()
    }

    /// Whether the browser is told of a proxy.
    pub fn is_explicit_proxy(self) -> bool {
        matches!(self, Self::Squid | Self::SquidCache) || self.is_longhaul()
    }

    /// Whether agent and gateway stand between browser and origins.
    pub fn is_longhaul(self) -> bool {
        matches!(
            self,
            Self::Longhaul | Self::LonghaulNopush | Self::LonghaulFixed | Self::LonghaulHttps
        )
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A name that is no system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSystem {
    /// Planned, and not there.
    #[error("`{0}` is not in this version")]
    NotYet(String),
    /// Never heard of.
    #[error("`{0}` is no system; there are: {known}", known = names())]
    Unknown(String),
}

fn names() -> String {
    System::ALL.map(System::name).join(", ")
}

impl FromStr for System {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        if matches!(name, "longhaul-quic" | "longhaul-tls" | "clientless" | "tcp-wwan") {
            return Err(UnknownSystem::NotYet(name.to_owned()));
        }
        let found = Self::ALL.into_iter().find(|system| system.name() == name);
        found.ok_or_else(|| UnknownSystem::Unknown(name.to_owned()))
    }
}
