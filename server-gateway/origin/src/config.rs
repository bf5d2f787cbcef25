//! Settings of the origin client.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_types::ByteCount;
use serde::Deserialize;
use thiserror::Error;

use crate::{deny::DenyList, guard::Guard, resolve::ResolveMap};

/// Settings of an [`OriginClient`](crate::OriginClient).
#[derive(Clone, Debug, Default)]
pub struct OriginConfig {
    /// `[fetch] deny-keys`: keys that no certificate of an origin's chain may have. Default: none.
    pub deny_keys: DenyList,
    /// `[fetch] dns`: the name servers. Default: those of the system.
    pub dns: DnsServers,
    /// `[fetch] extra-ca`: the contents of PEM files whose certificates are trusted besides the public authorities.
    pub extra_ca: Vec<Vec<u8>>,
    /// `[guard]`: which addresses may be connected to. Default: the public Internet only.
    pub guard: Guard,
    /// Bounds of memory and sockets.
    pub limits: Limits,
    /// `[fetch] resolve`: answers that come before DNS. Default: none.
    pub resolve: ResolveMap,
    /// How long each step may take.
    pub timeouts: Timeouts,
}

/// Why an [`OriginClient`](crate::OriginClient) cannot be made from its settings.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OriginConfigError {
    /// A certificate of `extra-ca` cannot be used as an authority.
    #[error("[fetch] extra-ca: file {file} holds a certificate that cannot serve as an authority")]
    BadCertificate {
        /// Which of the files, counted from 1.
        file: usize,
    },
    /// A file of `extra-ca` is no PEM, or holds no certificate.
    #[error("[fetch] extra-ca: file {file} holds no certificate in PEM form")]
    NoCertificate {
        /// Which of the files, counted from 1.
        file: usize,
    },
    /// The TLS library refused its own defaults.
    #[error("TLS cannot be set up: {detail}")]
    Tls {
        /// What the library said.
        detail: String,
    },
}

/// The name servers to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub enum DnsServers {
    /// These and no others.
    Explicit(Vec<SocketAddr>),
    /// Those of the system (`/etc/resolv.conf`, the registry on Windows).
    #[default]
    System,
}

/// A text that is no name server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no name server; write ADDRESS or ADDRESS:PORT")]
pub struct DnsServersError(pub String);

impl DnsServers {
    /// Reads servers written as `ADDRESS` or `ADDRESS:PORT`; the port is 53 where none is named. None means the system's.
    ///
    /// # Errors
    /// [`DnsServersError`] holds the first text that is none.
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

/// How long each step of a fetch may take. No step is unbounded; the sum is not bounded, because a download may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// All look-ups of one name. Default 10 s: two attempts of the resolver with its 5 s each.
    pub dns: Duration,
    /// All attempts to connect to one host (Happy Eyeballs included). Default 15 s: three SYN retransmissions.
    pub connect: Duration,
    /// One TLS handshake. Default 15 s.
    pub tls: Duration,
    /// A request's wait for its turn at its host. Default 60 s, as for the response's head: requests that are under way for
    /// longer than 30 s make room, so only a device that has its bound of those, too, waits that long.
    pub turn: Duration,
    /// From the end of the request to the head of the response. While the request's body is on its way this runs only
    /// when the origin does not take it. Default 60 s: long polls and slow searches are legitimate.
    pub response_head: Duration,
    /// Between two pieces of a response's body, counted only while somebody waits for the next one. Default 120 s.
    pub body_idle: Duration,
    /// How long an unused connection stays open. Default 60 s; common servers close after 5 to 75 s themselves.
    pub pool_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            dns: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            tls: Duration::from_secs(15),
            turn: Duration::from_secs(60),
            response_head: Duration::from_secs(60),
            body_idle: Duration::from_secs(120),
            pool_idle: Duration::from_secs(60),
        }
    }
}

/// Bounds of memory, sockets and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Header fields of a response, names and values. Default 256 KiB, as Chromium. An HTTP/2 response of more than twice
    /// as much fails as malformed.
    pub header_bytes: ByteCount,
    /// Header fields of an HTTP/1.1 response. Default 128.
    pub header_fields: usize,
    /// Requests under way at once to one host over HTTP/1.1, each of which needs a connection. Default 32.
    pub connections_per_host: usize,
    /// Of these, requests that each device may have under way even when all places are taken. Default 6, what a browser
    /// takes by itself: no number of other devices and of requests that last can take a host away from a device.
    pub reserved_per_host: usize,
    /// Requests of one device under way at once to one host over HTTP/2. Default 100, which RFC 9113 section 6.5.2 names
    /// as the least that servers should allow.
    pub streams_per_host: usize,
    /// Requests of one device, to all hosts, that count no longer at their hosts because they last: event streams, and
    /// what is older than 30 s. Default 256, what one session of a device may have under way.
    pub lasting_per_device: usize,
    /// Requests of one device waiting for their turn at one host. Default 1024; more are refused at once.
    pub waiting_per_host: usize,
    /// Unused connections kept per host for each device, and as many that belong to none. Default 8.
    pub idle_per_host: usize,
    /// Connections of all fetches and tunnels together, unused ones included. Default 2048; one needs a file descriptor and
    /// about 50 KiB.
    pub connections: usize,
    /// The same of one device. Default 1024: what one device may have under way, and as many unused.
    pub connections_per_device: usize,
    /// Answers kept by the DNS cache. Default 8192; one takes below 1 KiB.
    pub dns_cache_entries: u64,
    /// Bytes of one HTTP/2 connection that origins may send ahead of the readers. Default 4 MiB; half of it per stream.
    pub h2_window: ByteCount,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: ByteCount::kib(256),
            header_fields: 128,
            connections_per_host: 32,
            reserved_per_host: 6,
            streams_per_host: 100,
            lasting_per_device: 256,
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
    }
}
