//! Clients to which the agent cannot answer: what they send reaches the host unchanged, on the first connection.
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::authority::TestAuthority;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{Accelerated, open};
use crate::pair::LIMIT;

/// The parts of a ClientHello (RFC 8446 section 4.1.2) in which clients differ.
#[derive(Clone)]
struct Hello {
    legacy_version: u16,
    /// `None`: no extension, as before TLS 1.3.
    versions: Option<Vec<u16>>,
    suites: Vec<u16>,
    groups: Option<Vec<u16>>,
    signatures: Option<Vec<u16>>,
    protocols: Vec<&'static str>,
    name: Option<&'static str>,
    compression: Vec<u8>,
    /// Extensions as they are on the wire.
    more: Vec<u8>,
}

fn hello() -> Hello {
    Hello {
        legacy_version: 0x0303,
        versions: Some(vec![0x0304, 0x0303]),
        suites: vec![0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xc02f],
        groups: Some(vec![29, 23, 24]),
        signatures: Some(vec![0x0403, 0x0804, 0x0401]),
        protocols: vec!["h2", "http/1.1"],
        name: Some("safe.test"),
        compression: vec![0],
        more: Vec::new(),
    }
}

fn sized<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len().to_be_bytes();
    [&length[length.len() - N..], bytes].concat()
}

fn list(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &sized::<2>(content)].concat()
}

impl Hello {
    fn wire(&self) -> Vec<u8> {
        let mut extensions = self.more.clone();
        if let Some(name) = self.name {
            let entry = [&[0][..], &sized::<2>(name.as_bytes())].concat();
            extensions.extend(extension(0, &sized::<2>(&entry)));
        }
        if let Some(groups) = &self.groups {
            extensions.extend(extension(10, &sized::<2>(&list(groups))));
        }
        if let Some(signatures) = &self.signatures {
            extensions.extend(extension(13, &sized::<2>(&list(signatures))));
        }
        if !self.protocols.is_empty() {
            let names: Vec<u8> = self
                .protocols
                .iter()
                .flat_map(|name| sized::<1>(name.as_bytes()))
                .collect();
            extensions.extend(extension(16, &sized::<2>(&names)));
        }
        if let Some(versions) = &self.versions {
            extensions.extend(extension(43, &sized::<1>(&list(versions))));
            // A share of X25519, any 32 bytes.
            let share = [&29_u16.to_be_bytes()[..], &sized::<2>(&[9; 32])].concat();
            extensions.extend(extension(51, &sized::<2>(&share)));
        }
        let body = [
            &self.legacy_version.to_be_bytes()[..],
            &[7; 32],
            &sized::<1>(&[8; 32]),
            &sized::<2>(&list(&self.suites)),
            &sized::<1>(&self.compression),
            &sized::<2>(&extensions),
        ]
        .concat();
        let message = [&[1][..], &sized::<3>(&body)].concat();
        [&[0x16, 3, 1][..], &sized::<2>(&message)].concat()
    }
}

/// Hosts that receive bytes and understand nothing.
struct Host {
    listener: TcpListener,
}

impl Host {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { listener })
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Requires that the next connection begins with these bytes.
    async fn receives(&self, bytes: &[u8]) -> Result<()> {
        let (mut stream, _) = timeout(LIMIT, self.listener.accept())
            .await
            .context("no tunnel")??;
        let mut received = vec![0; bytes.len()];
        timeout(LIMIT, stream.read_exact(&mut received))
            .await
            .context("too few bytes")??;
        ensure!(received == bytes, "changed bytes");
        Ok(())
    }
}

async fn send(proxy: SocketAddr, bytes: &[u8]) -> Result<TcpStream> {
    let mut stream = open(proxy, "safe.test").await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Clients that have nothing in common with the agent's TLS.
fn incompatible() -> Vec<(&'static str, Vec<u8>)> {
    let tls12 = || Hello {
        versions: None,
        ..hello()
    };
    let with = |name, hello: Hello| (name, hello.wire());
    vec![
        with(
            "TLS 1.0",
            Hello {
                legacy_version: 0x0301,
                ..tls12()
            },
        ),
        with(
            "TLS 1.1",
            Hello {
                versions: Some(vec![0x0302, 0x0301]),
                ..hello()
            },
        ),
        with(
            "a draft of TLS 1.3",
            Hello {
                versions: Some(vec![0x7f1c, 0x1a1a]),
                ..hello()
            },
        ),
        with(
            "RSA signatures",
            Hello {
                signatures: Some(vec![0x0804, 0x0401, 0x0201]),
                ..hello()
            },
        ),
        with(
            "RSA signatures in TLS 1.2",
            Hello {
                signatures: Some(vec![0x0401]),
                ..tls12()
            },
        ),
        with(
            "no signatures in TLS 1.2",
            Hello {
                signatures: None,
                ..tls12()
            },
        ),
        with(
            "CBC",
            Hello {
                suites: vec![0xc009, 0xc023, 0xc013],
                ..tls12()
            },
        ),
        with(
            "RSA suites",
            Hello {
                suites: vec![0xc02f, 0x009c, 0x002f],
                ..tls12()
            },
        ),
        with(
            "suites of TLS 1.2 with the version 1.3",
            Hello {
                versions: Some(vec![0x0304]),
                suites: vec![0xc02b],
                ..hello()
            },
        ),
        with(
            "P-521 and X448",
            Hello {
                groups: Some(vec![25, 30]),
                ..hello()
            },
        ),
        with(
            "finite fields",
            Hello {
                groups: Some(vec![256, 257]),
                ..tls12()
            },
        ),
        with(
            "no groups",
            Hello {
                groups: None,
                ..tls12()
            },
        ),
        with(
            "no message without compression",
            Hello {
                compression: vec![1],
                ..tls12()
            },
        ),
        with(
            "an extension twice",
            Hello {
                more: [extension(23, b""), extension(23, b"")].concat(),
                ..hello()
            },
        ),
        with(
            "ACME",
            Hello {
                protocols: vec!["acme-tls/1"],
                ..hello()
            },
        ),
        with(
            "mail",
            Hello {
                protocols: vec!["imap"],
                ..hello()
            },
        ),
        with(
            "chat",
            Hello {
                protocols: vec!["xmpp-client"],
                ..hello()
            },
        ),
        with(
            "HTTP/1.0",
            Hello {
                protocols: vec!["http/1.0"],
                ..hello()
            },
        ),
        with(
            "no protocol",
            Hello {
                protocols: vec![],
                ..hello()
            },
        ),
        with(
            "another host",
            Hello {
                name: Some("other.test"),
                ..hello()
            },
        ),
        with(
            "a subdomain",
            Hello {
                name: Some("www.safe.test"),
                ..hello()
            },
        ),
        with(
            "no name",
            Hello {
                name: None,
                ..hello()
            },
        ),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        ("mail in clear text", b"EHLO client.test\r\n".to_vec()),
        (
            "HTTP in clear text",
            b"GET / HTTP/1.1\r\nHost: safe.test\r\n\r\n".to_vec(),
        ),
        ("SSL 2", vec![0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10]),
        ("an alert", vec![0x15, 3, 1, 0, 2, 2, 40]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_the_agent_cannot_answer_reaches_the_host_at_once() -> Result<()> {
    let (authority, host) = (TestAuthority::new()?, Host::start().await?);
    let site = Accelerated::start(&[("safe.test", host.address()?)], &authority, "all").await?;
    for (what, bytes) in incompatible() {
        // Each client is the first of its kind.
        site.forget_bypasses().await?;
        let _client = send(site.pair.proxy(), &bytes).await?;
        host.receives(&bytes).await.context(what)?;
    }
    Ok(())
}
