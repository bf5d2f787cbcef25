//! Systems between the browser and the origins.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::loader::Loader;

/// A system under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// No proxy. The scripted browser: HTTP/1.1 with two persistent connections per host, identity coding,
    /// which is the papers' baseline. Chromium: HTTP/1.1 with its own six.
    Direct,
    /// No proxy, six connections per host.
    Direct6,
    /// No proxy, two connections per host, requests pipelined.
    DirectPipelined,
    /// No proxy, HTTP/1.0: a connection per object.
    DirectHttp10,
    /// No proxy, HTTP/2 over TLS.
    DirectH2,
    /// No proxy, six connections per host, and no name look-up crosses the hop: what DNS boosting saves of look-ups.
    DirectDns,
    /// No proxy, six connections, and every object under the page's own host, as a proxy that rewrites URLs makes it.
    UrlRewriting,
    /// A proxy instead of the gateway that terminates TCP and does not parse HTTP.
    TcpProxy,
    /// The same, two connections, requests pipelined.
    TcpProxyPipelined,
    /// The same with a sender for slow last hops towards the client (decision 48).
    TcpWwan,
    /// The same with two connections, requests pipelined.
    TcpWwanPipelined,
    /// Squid instead of the gateway, without a cache.
    Squid,
    /// Squid instead of the gateway with its cache in memory.
    SquidCache,
    /// The same, two connections, requests pipelined.
    SquidPipelined,
    /// Ziproxy instead of the gateway: gzip and smaller images, without a cache.
    Ziproxy,
    /// Two proxies with one open HTTP/2 connection between them, without a cache.
    Http2Pair,
    /// The gateway as the HTTP proxy of a browser without an agent.
    Clientless,
    /// The same without a link profile: the gateway measures the link (decision 86).
    ClientlessUnknown,
    /// The same as `Clientless` with two connections.
    #[serde(rename = "clientless-2")]
    Clientless2,
    /// The same inside TLS with HTTP/2: a secure web proxy.
    #[serde(rename = "clientless-h2")]
    ClientlessH2,
    /// The same as `Clientless`, found by its proxy auto-configuration script.
    ClientlessPac,
    /// The same as `ClientlessH2`, found by its proxy auto-configuration script.
    #[serde(rename = "clientless-h2-pac")]
    ClientlessH2Pac,
    /// The same as `Clientless`, two connections, requests pipelined.
    ClientlessPipelined,
    /// The gateway as the router of a browser without a proxy: nftables redirects its connections (decision 49).
    ClientlessTransparent,
    /// The gateway as the name server of a browser without a proxy, which leads all hosts to itself (decision 50).
    ClientlessDns,
    /// Longhaul's agent and gateway.
    Longhaul,
    /// The same without pushes: each object is requested by the browser and then fetched.
    LonghaulNopush,
    /// The same with everything coded by Brotli 5 and WebP of quality 75, whatever the link.
    LonghaulFixed,
    /// The same with accelerated https, which otherwise passes as a tunnel. Generated pages are served over
    /// https in this case.
    LonghaulHttps,
    /// The same, whose session uses only TLS.
    LonghaulTls,
    /// The same, whose session uses only QUIC.
    LonghaulQuic,
    /// The same without a link profile: an agent that starts on a network which it does not know.
    LonghaulUnknown,
    /// The same over TLS alone: a first session in a network that blocks UDP.
    LonghaulTlsUnknown,
    /// The same without a link profile, with the state folder of an agent that has used the network before.
    LonghaulRemembered,
}

impl System {
    /// All systems of this version.
    pub const ALL: [Self; 34] = [
        Self::Direct,
        Self::Direct6,
        Self::DirectPipelined,
        Self::DirectHttp10,
        Self::DirectH2,
        Self::DirectDns,
        Self::UrlRewriting,
        Self::TcpProxy,
        Self::TcpProxyPipelined,
        Self::TcpWwan,
        Self::TcpWwanPipelined,
        Self::Squid,
        Self::SquidCache,
        Self::SquidPipelined,
        Self::Ziproxy,
        Self::Http2Pair,
        Self::Clientless,
        Self::ClientlessUnknown,
        Self::Clientless2,
        Self::ClientlessH2,
        Self::ClientlessPac,
        Self::ClientlessH2Pac,
        Self::ClientlessPipelined,
        Self::ClientlessTransparent,
        Self::ClientlessDns,
        Self::Longhaul,
        Self::LonghaulNopush,
        Self::LonghaulFixed,
        Self::LonghaulHttps,
        Self::LonghaulTls,
        Self::LonghaulQuic,
        Self::LonghaulUnknown,
        Self::LonghaulTlsUnknown,
        Self::LonghaulRemembered,
    ];

    /// Returns its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Direct6 => "direct-6",
            Self::DirectPipelined => "direct-pipelined",
            Self::DirectHttp10 => "direct-http10",
            Self::DirectH2 => "direct-h2",
            Self::DirectDns => "direct-dns",
            Self::UrlRewriting => "url-rewriting",
            Self::TcpProxy => "tcp-proxy",
            Self::TcpProxyPipelined => "tcp-proxy-pipelined",
            Self::TcpWwan => "tcp-wwan",
            Self::TcpWwanPipelined => "tcp-wwan-pipelined",
            Self::Squid => "squid",
            Self::SquidCache => "squid-cache",
            Self::SquidPipelined => "squid-pipelined",
            Self::Ziproxy => "ziproxy",
            Self::Http2Pair => "http2-pair",
            Self::Clientless => "clientless",
            Self::ClientlessUnknown => "clientless-unknown",
            Self::Clientless2 => "clientless-2",
            Self::ClientlessH2 => "clientless-h2",
            Self::ClientlessPac => "clientless-pac",
            Self::ClientlessH2Pac => "clientless-h2-pac",
            Self::ClientlessPipelined => "clientless-pipelined",
            Self::ClientlessTransparent => "clientless-transparent",
            Self::ClientlessDns => "clientless-dns",
            Self::Longhaul => "longhaul",
            Self::LonghaulNopush => "longhaul-nopush",
            Self::LonghaulFixed => "longhaul-fixed",
            Self::LonghaulHttps => "longhaul-https",
            Self::LonghaulTls => "longhaul-tls",
            Self::LonghaulQuic => "longhaul-quic",
            Self::LonghaulUnknown => "longhaul-unknown",
            Self::LonghaulTlsUnknown => "longhaul-tls-unknown",
            Self::LonghaulRemembered => "longhaul-remembered",
        }
    }

    /// Returns the reason for which this loader cannot load pages with this system, if there is one.
    pub fn refuses(self, loader: Loader) -> Option<&'static str> {
        match (self, loader) {
            (Self::DirectH2 | Self::ClientlessH2, Loader::Model) => {
                Some("the scripted browser has no HTTP/2")
            }
            (Self::ClientlessPac | Self::ClientlessH2Pac, Loader::Model) => {
                Some("the scripted browser runs no scripts; use `clientless`")
            }
            (Self::Direct6 | Self::DirectPipelined | Self::DirectHttp10, Loader::Chromium) => {
                Some("Chromium has its own rules for connections; use `direct`")
            }
            (Self::Clientless2, Loader::Chromium) => {
                Some("Chromium has its own rules for connections; use `clientless`")
            }
            (Self::DirectDns | Self::UrlRewriting, Loader::Chromium) => {
                Some("only the scripted browser isolates this effect")
            }
            (Self::TcpProxyPipelined | Self::TcpWwanPipelined, Loader::Chromium) => {
                Some("Chromium does not pipeline requests; use `tcp-proxy` or `tcp-wwan`")
            }
            (Self::SquidPipelined | Self::ClientlessPipelined, Loader::Chromium) => {
                Some("Chromium does not pipeline requests; use `squid-cache` or `clientless`")
            }
            _ => None,
        }
    }

    /// Returns true if pages are served over https although they are recorded or generated as http.
    pub fn needs_tls(self) -> bool {
        matches!(self, Self::DirectH2 | Self::LonghaulHttps)
    }

    /// Returns true if Chromium may use HTTP/2. Between browser and origin it is a separate system; with
    /// Longhaul it stays inside a tunnel or on the device, as for users.
    pub fn allows_http2(self) -> bool {
        self == Self::DirectH2 || self.is_secure_proxy() || self.is_longhaul()
    }

    /// Returns true if the browser's proxy is inside TLS.
    pub fn is_secure_proxy(self) -> bool {
        matches!(self, Self::ClientlessH2 | Self::ClientlessH2Pac)
    }

    /// Returns true if the browser finds its proxy by a script.
    pub fn has_proxy_script(self) -> bool {
        matches!(self, Self::ClientlessPac | Self::ClientlessH2Pac)
    }

    /// Returns true if the browser is configured with a proxy.
    pub fn is_explicit_proxy(self) -> bool {
        self.is_squid()
            || (self.is_clientless() && !self.redirects())
            || matches!(self, Self::Ziproxy | Self::Http2Pair)
            || self.is_longhaul()
    }

    /// Returns true if Squid is the proxy.
    pub fn is_squid(self) -> bool {
        matches!(self, Self::Squid | Self::SquidCache | Self::SquidPipelined)
    }

    /// Returns true if a browser without an agent loads pages by the gateway.
    pub fn is_clientless(self) -> bool {
        matches!(
            self,
            Self::Clientless
                | Self::ClientlessUnknown
                | Self::Clientless2
                | Self::ClientlessH2
                | Self::ClientlessPac
                | Self::ClientlessH2Pac
                | Self::ClientlessPipelined
        ) || self.redirects()
    }

    /// Returns true if the gateway gets the connections of a browser that knows of no proxy.
    pub fn redirects(self) -> bool {
        matches!(self, Self::ClientlessTransparent | Self::ClientlessDns)
    }

    /// Returns true if requests are sent before the responses to earlier ones.
    pub fn is_pipelined(self) -> bool {
        matches!(
            self,
            Self::DirectPipelined
                | Self::TcpProxyPipelined
                | Self::TcpWwanPipelined
                | Self::SquidPipelined
                | Self::ClientlessPipelined
        )
    }

    /// Returns true if all objects of the page are under its own host.
    pub fn rewrites_urls(self) -> bool {
        self == Self::UrlRewriting
    }

    /// Returns true if agent and gateway are between browser and origins.
    pub fn is_longhaul(self) -> bool {
        matches!(
            self,
            Self::Longhaul
                | Self::LonghaulNopush
                | Self::LonghaulFixed
                | Self::LonghaulHttps
                | Self::LonghaulTls
                | Self::LonghaulQuic
                | Self::LonghaulUnknown
                | Self::LonghaulTlsUnknown
                | Self::LonghaulRemembered
        )
    }
}

impl fmt::Display for System {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Errors of a name that is not a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSystem {
    /// Session messages on QUIC streams are not built: `transport` compares with QUIC (decision 52).
    #[error(
        "pages have no system `{0}`: `longhaul-bench transport --against quinn,quinn-tuned,quinn-bbr` compares \
         Longhaul's transport with QUIC"
    )]
    OnlyTransport(String),
    /// The name is unknown.
    #[error("`{0}` is not a system; existing systems are: {known}", known = names())]
    Unknown(String),
}

fn names() -> String {
    System::ALL.map(System::name).join(", ")
}

impl FromStr for System {
    type Err = UnknownSystem;

    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        if name == "longhaul-quinn" {
            return Err(UnknownSystem::OnlyTransport(name.to_owned()));
        }
        let found = Self::ALL.into_iter().find(|system| system.name() == name);
        found.ok_or_else(|| UnknownSystem::Unknown(name.to_owned()))
    }
}
