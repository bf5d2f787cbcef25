use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_hosting::{Announcement, CloseAfter, HostingOptions, Http2};
use rustls::{ClientConfig, crypto::ring};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::client::{Server, server, until};

async fn connect(server: &Server, host: &str, protocols: &[&str]) -> Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(server.authority.roots()?)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.hosting.tls()[0]).await?;
    let name = ServerName::try_from(host.to_owned())?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

fn get(host: &str, path: &str, version: Version) -> Result<Request<Empty<Bytes>>> {
    let uri = match version {
        Version::HTTP_2 => format!("https://{host}{path}"),
        _ => path.to_owned(),
    };
    let request = Request::get(uri).version(version);
    let request = match version {
        Version::HTTP_2 => request,
        _ => request.header("host", host),
    };
    Ok(request.body(Empty::new())?)
}

#[tokio::test]
async fn every_name_has_a_certificate_and_http_2_is_chosen_by_alpn() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    for host in ["a.example", "b.example"] {
        let stream = connect(&server, host, &["h2", "http/1.1"]).await?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let io = TokioIo::new(stream);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        let requests = (0..50).map(|number| {
            let request = get(host, &format!("/{}", number * 1000), Version::HTTP_2).unwrap();
            sender.send_request(request)
        });
        // All requests are sent before the first response is awaited.
        for (number, response) in requests.collect::<Vec<_>>().into_iter().enumerate() {
            let response = response.await?;
            assert_eq!(response.version(), Version::HTTP_2);
            assert_eq!(response.headers()["x-host"], host);
            assert_eq!(response.headers()["x-scheme"], "https");
            let body = response.into_body().collect().await?.to_bytes();
            assert_eq!(body.len(), number * 1000);
        }
    }
    Ok(())
}

#[tokio::test]
async fn http_1_is_used_if_http_2_is_disabled_or_not_offered() -> Result<()> {
    for (http2, asked) in [
        (Http2::Off, &["h2", "http/1.1"][..]),
        (Http2::On, &["http/1.1"]),
        (Http2::On, &[]),
    ] {
        let options = HostingOptions {
            http2,
            ..HostingOptions::default()
        };
        let server = server(options).await?;
        let stream = connect(&server, "a.example", asked).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        for length in [7, 100_000] {
            let path = format!("/{length}");
            let response = sender
                .send_request(get("a.example", &path, Version::HTTP_11)?)
                .await?;
            assert_eq!(response.version(), Version::HTTP_11);
            assert_eq!(response.into_body().collect().await?.to_bytes().len(), length);
        }
    }
    Ok(())
}

#[tokio::test]
async fn http_2_sends_goaway_after_its_last_response() -> Result<()> {
    for announcement in [Announcement::Announced, Announcement::Silent] {
        let options = HostingOptions {
            close_after: Some(CloseAfter {
                responses: 3,
                announcement,
            }),
            ..HostingOptions::default()
        };
        let server = server(options).await?;
        let stream = connect(&server, "a.example", &["h2"]).await?;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        for _ in 0..3 {
            let response = sender
                .send_request(get("a.example", "/5000", Version::HTTP_2)?)
                .await?;
            assert_eq!(response.into_body().collect().await?.to_bytes().len(), 5000);
        }
        // The server ends it; the client's side is still open.
        connection.await?.context("a clean end")?;
        assert_eq!(server.hosting.statistics().requests, 3);
        drop(sender);
    }
    Ok(())
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed() -> Result<()> {
    let options = HostingOptions {
        keep_alive_timeout: std::time::Duration::from_millis(150),
        ..HostingOptions::default()
    };
    let server = server(options).await?;
    let stream = connect(&server, "a.example", &["h2"]).await?;
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender
        .send_request(get("a.example", "/5000", Version::HTTP_2)?)
        .await?;
    assert_eq!(response.into_body().collect().await?.to_bytes().len(), 5000);
    tokio::time::timeout(crate::client::PATIENCE, connection)
        .await??
        .context("a clean end")?;
    drop(sender);
    Ok(())
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_counted() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let other = crate::client::server(HostingOptions::default()).await?;
    let stranger = Server {
        hosting: server.hosting,
        authority: other.authority,
    };
    assert!(connect(&stranger, "a.example", &[]).await.is_err());
    until("the failed handshake is counted", || {
        stranger.hosting.statistics().failed_handshakes > 0
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_pin_is_the_hash_of_the_key_in_the_chain() -> Result<()> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let server = server(HostingOptions::default()).await?;
    let stream = connect(&server, "a.example", &[]).await?;
    let chain = stream.get_ref().1.peer_certificates().context("a chain")?;
    assert_eq!(chain.len(), 2);
    assert_eq!(&chain[1], server.authority.certificate());
    // A P-256 SubjectPublicKeyInfo has 91 bytes and begins with these; it occurs once in the certificate.
    let beginning = [0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48];
    let at = chain[1]
        .windows(beginning.len())
        .position(|bytes| bytes == beginning)
        .context("a P-256 key")?;
    let key = &chain[1][at..at + 91];
    let hash = ring_digest(key);
    assert_eq!(server.authority.pin(), STANDARD.encode(hash));
    assert!(server.authority.pem().starts_with("-----BEGIN CERTIFICATE-----"));
    Ok(())
}

fn ring_digest(bytes: &[u8]) -> Vec<u8> {
    ::ring::digest::digest(&::ring::digest::SHA256, bytes)
        .as_ref()
        .to_vec()
}
