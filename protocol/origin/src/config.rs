//! Settings of the origin client.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_proxy::HttpProxy;
use longhaul_types::ByteCount;
use serde::Deserialize;
use thiserror::Error;

use crate::{deny::DenyList, guard::Guard, own_addresses::AddressReader, resolve::ResolveMap};

/// Settings of an [`OriginClient`](crate::OriginClient).
#[derive(Clone, Debug, Default)]
pub struct OriginConfig {
    /// `[fetch] deny-keys`: public keys that no certificate of an origin's chain may have. Default: none.
    pub deny_keys: DenyList,
    /// `[fetch] dns`: the name servers. Default: those of the system.
    pub dns: DnsServers,
    /// `[fetch] extra-ca`: contents of PEM files whose certificates are trusted in addition to the public
    /// authorities.
    pub extra_ca: Vec<Vec<u8>>,
    /// `[guard]`: the addresses that may be connected to. Default: public Internet only.
    pub guard: Guard,
    /// Limits of memory and sockets.
    pub limits: Limits,
    /// True if the guard looks through the NAT64 prefixes of this network (RFC 7050). Default: false.
    pub looks_through_nat64: bool,
    /// Reads the own addresses of [`Self::guard`] again while the client runs. Default: they stay.
    pub own_addresses: Option<AddressReader>,
    /// HTTP proxy through which public hosts are reached; the names of hosts are then looked up by it. Default: none.
    pub proxy: Option<HttpProxy>,
    /// `[fetch] resolve`: addresses that take precedence over DNS. Default: none.
    pub resolve: ResolveMap,
    /// Time limits of the steps of a fetch.
    pub timeouts: Timeouts,
}

/// Errors of creating an [`OriginClient`](crate::OriginClient) from its settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OriginConfigError {
    /// A certificate of `extra-ca` cannot serve as an authority.
    #[error("[fetch] extra-ca: file {file} holds a certificate that cannot serve as an authority")]
    BadCertificate {
        /// Index of the file, from 1.
        file: usize,
    },
    /// A file of `extra-ca` is not PEM, or contains no certificate.
    #[error("[fetch] extra-ca: file {file} holds no certificate in PEM form")]
    NoCertificate {
        /// Index of the file, from 1.
        file: usize,
    },
    /// The TLS library rejected its own defaults.
    #[error("TLS cannot be set up: {detail}")]
    Tls {
        /// The error text of the library.
        detail: String,
    },
}

/// The name servers that the client queries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub enum DnsServers {
    /// Only these servers.
    Explicit(Vec<SocketAddr>),
    /// No servers: the resolver of the system's C library, which also knows the hosts file, search domains and multicast DNS,
    /// and follows the computer from network to network.
    Library,
    /// The servers of the system (`/etc/resolv.conf`, the registry on Windows).
    #[default]
    System,
}

/// Text that is not a name server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no name server; write ADDRESS or ADDRESS:PORT")]
pub struct DnsServersError(pub String);

impl DnsServers {
    /// Parses servers written as `ADDRESS` or `ADDRESS:PORT`; the default port is 53. An empty list means the
    /// system's servers.
    ///
    /// # Errors
    /// [`DnsServersError`] with the first text that is not a name server.
    pub fn parse<T: AsRef<str>>(servers: impl IntoIterator<Item = T>) -> Result<Self, DnsServersError> {
        let mut parsed = Vec::new();
        for text in servers {
            let text = text.as_ref();
            let server = match text.parse::<IpAddr>() {
                Ok(address) => SocketAddr::new(address, 53),
                Err(_) => text.parse().map_err(|_| DnsServersError(text.to_owned()))?,
            };
            parsed.push(server);
        }
        Ok(if parsed.is_empty() {
            Self::System
        } else {
            Self::Explicit(parsed)
        })
    }
}

impl TryFrom<Vec<String>> for DnsServers {
    type Error = DnsServersError;

    fn try_from(servers: Vec<String>) -> Result<Self, DnsServersError> {
        Self::parse(servers)
    }
}

/// Time limits of the steps of a fetch. Each step is bounded; the sum is not, because a download may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// All lookups of one name. Default 10 s: two attempts of the resolver of 5 s each.
    pub dns: Duration,
    /// All attempts to connect to one host (Happy Eyeballs included). Default 30 s: four SYN retransmissions.
    pub connect: Duration,
    /// One TLS handshake. Default 30 s, as in Chromium.
    pub tls: Duration,
    /// Maximum wait of a request until it may run at its host. Default 60 s.
    /// Requests that have run for more than 30 s release their slots at the host, so only a device at its
    /// limit of long-lived requests waits that long.
    pub host_wait: Duration,
    /// Time from the end of the request to the head of the response. While the request's body is being sent,
    /// the time counts only while the origin accepts no data. Default 300 s, as in browsers: long polls and slow searches
    /// are legitimate.
    pub response_head: Duration,
    /// Time between two pieces of a response body, counted only while a reader waits for the next piece.
    /// Default 1 h: event streams may be silent for long, and TCP keep-alive notices an origin that is gone.
    pub body_idle: Duration,
    /// Time for which an idle connection stays open. Default 60 s; common servers close idle connections
    /// after 5 to 75 s.
    pub pool_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            dns: Duration::from_secs(10),
            connect: Duration::from_secs(30),
            tls: Duration::from_secs(30),
            host_wait: Duration::from_secs(60),
            response_head: Duration::from_secs(300),
            body_idle: Duration::from_secs(3600),
            pool_idle: Duration::from_secs(60),
        }
    }
}

/// Limits of memory, sockets and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Names and values of the header fields of a response. Default 256 KiB, as in Chromium. An HTTP/2
    /// response of more than twice this size fails as malformed.
    pub header_bytes: ByteCount,
    /// Header fields of an HTTP/1.1 response. Default 512, as on the hop: browsers have no limit, and the largest heads that were seen
    /// have some hundred cookies.
    pub header_fields: usize,
    /// Concurrent HTTP/1.1 requests to one host; each needs a connection. Default 32.
    pub connections_per_host: usize,
    /// Number of these requests that each device may have in progress even if all slots are in use. Default
    /// 6, the number that a browser uses by itself: other devices and long-lived requests cannot deny a host
    /// to a device.
    pub reserved_per_host: usize,
    /// Concurrent HTTP/2 requests of one device to one host. Default 100, the smallest limit that RFC 9113
    /// section 6.5.2 recommends to servers.
    pub streams_per_host: usize,
    /// Requests of one device, to all hosts, that no longer count at their hosts because they are long-lived:
    /// event streams, and requests older than 30 s. Default 256, the number of requests that one session may
    /// have in progress.
    pub long_lived_per_device: usize,
    /// Requests of one device that wait at one host. Default 1024; further requests are
    /// rejected at once.
    pub waiting_per_host: usize,
    /// Idle connections kept per host for each device, and the same number of connections that belong to no
    /// device. Default 8.
    pub idle_per_host: usize,
    /// Connections of all fetches and tunnels, idle ones included. Default 2048; a connection needs a file
    /// descriptor and about 50 KiB.
    pub connections: usize,
    /// Connections of one device, counted like `connections`. Default 1024: the requests that one device may
    /// have in progress, and as many idle connections.
    pub connections_per_device: usize,
    /// Answers in the DNS cache. Default 8192; an answer takes less than 1 KiB.
    pub dns_cache_entries: u64,
    /// Bytes that origins may send ahead of the readers on one HTTP/2 connection. Default 4 MiB; half of it
    /// per stream.
    pub h2_window: ByteCount,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: ByteCount::kib(256),
            header_fields: 512,
            connections_per_host: 32,
            reserved_per_host: 6,
            streams_per_host: 100,
            long_lived_per_device: 256,
            waiting_per_host: 1024,
            idle_per_host: 8,
            connections: 2048,
            connections_per_device: 1024,
            dns_cache_entries: 8192,
            h2_window: ByteCount::mib(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_name_servers() {
        let servers = DnsServers::parse(["10.0.0.53", "10.0.0.54:5353", "::1", "[::1]:54"]).unwrap();
        let expected = ["10.0.0.53:53", "10.0.0.54:5353", "[::1]:53", "[::1]:54"];
        assert_eq!(
            servers,
            DnsServers::Explicit(expected.map(|text| text.parse().unwrap()).to_vec())
        );
        assert_eq!(DnsServers::parse::<&str>([]), Ok(DnsServers::System));
        assert_eq!(
            DnsServers::parse(["dns.test"]),
            Err(DnsServersError("dns.test".to_owned()))
        );
        let read: DnsServers = serde_json::from_str(r#"["10.0.0.53"]"#).unwrap();
        assert_eq!(read, DnsServers::parse(["10.0.0.53"]).unwrap());
        assert!(serde_json::from_str::<DnsServers>(r#"["dns.test"]"#).is_err());
    }
}
