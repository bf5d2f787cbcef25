//! TLS and HTTP/2 with real origins whose certificates come from a temporary authority.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::rig::{
    LOCAL, Origin, config_of, get, text,
    tls::{Authority, Demand, Validity, key_hash, origin},
};
use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use longhaul_origin::{
    Fault, FetchError, Limits, OriginClient, OriginConfig, OriginConfigError, Timeouts, TlsDefect,
};
use longhaul_types::ByteCount;
use rcgen::KeyPair;
use tokio::{io::AsyncReadExt as _, sync::Notify};
use tokio_rustls::TlsAcceptor;

const BOTH: [&str; 2] = ["h2", "http/1.1"];

fn hello(request: &Request<hyper::body::Incoming>) -> Response<Full<Bytes>> {
    let answer = format!(
        "{:?} {} {:?}",
        request.version(),
        request.uri().path(),
        request.headers().get("host")
    );
    Response::new(Full::from(answer))
}

fn trusting(authority: &Authority, address: std::net::SocketAddr) -> OriginClient {
    OriginClient::new(OriginConfig {
        extra_ca: vec![authority.pem()],
        ..config_of(address)
    })
    .unwrap()
}

#[tokio::test]
async fn speaks_http2_when_the_origin_does() {
    let authority = Authority::new();
    let origin = origin(authority.server("site.test", Validity::Now, &BOTH), hello).await;
    let client = trusting(&authority, origin.address);
    let response = client.fetch(get("https://site.test/x"), LOCAL).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(text(response).await.unwrap(), "HTTP/2.0 /x None");
}

#[tokio::test]
async fn speaks_http11_when_the_origin_does_not() {
    let authority = Authority::new();
    for alpn in [&["http/1.1"][..], &[]] {
        let origin = origin(authority.server("site.test", Validity::Now, alpn), hello).await;
        let client = trusting(&authority, origin.address);
        let response = client.fetch(get("https://site.test/x"), LOCAL).await.unwrap();
        assert_eq!(text(response).await.unwrap(), "HTTP/1.1 /x Some(\"site.test\")");
    }
}

#[tokio::test]
async fn a_burst_to_a_new_http2_host_takes_one_connection() {
    let authority = Authority::new();
    let origin = origin(authority.server("site.test", Validity::Now, &BOTH), hello).await;
    let client = trusting(&authority, origin.address);
    let fetches: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(
                async move { text(client.fetch(get("https://site.test/"), LOCAL).await.unwrap()).await },
            )
        })
        .collect();
    for fetch in fetches {
        fetch.await.unwrap().unwrap();
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn a_burst_to_a_new_http11_host_runs_side_by_side() {
    let authority = Authority::new();
    let origin = origin(authority.server("site.test", Validity::Now, &["http/1.1"]), hello).await;
    let client = trusting(&authority, origin.address);
    let fetches: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(
                async move { text(client.fetch(get("https://site.test/"), LOCAL).await.unwrap()).await },
            )
        })
        .collect();
    for fetch in fetches {
        fetch.await.unwrap().unwrap();
    }
    assert!(origin.connections() <= 20);
}

#[tokio::test]
async fn certificate_defects_are_reported() {
    let authority = Authority::new();
    for (name, validity, expected) in [
        ("site.test", Validity::Expired, TlsDefect::Expired),
        ("site.test", Validity::Future, TlsDefect::NotValidYet),
        ("other.test", Validity::Now, TlsDefect::NameMismatch),
        ("*.site.test", Validity::Now, TlsDefect::NameMismatch),
        ("127.0.0.1", Validity::Now, TlsDefect::NameMismatch),
    ] {
        let origin = origin(authority.server(name, validity, &BOTH), hello).await;
        let error = trusting(&authority, origin.address)
            .fetch(get("https://site.test/"), LOCAL)
            .await
            .unwrap_err();
        assert_eq!(error, FetchError::Tls(expected), "{name}");
        assert_eq!(error.fault(), Fault::Origin);
    }
}

#[tokio::test]
async fn a_foreign_authority_is_not_trusted() {
    let authority = Authority::new();
    let origin = origin(authority.server("site.test", Validity::Now, &BOTH), hello).await;
    for extra_ca in [vec![], vec![Authority::new().pem()]] {
        let client = OriginClient::new(OriginConfig {
            extra_ca,
            ..config_of(origin.address)
        })
        .unwrap();
        let error = client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err();
        assert_eq!(error, FetchError::Tls(TlsDefect::UnknownIssuer));
    }
}

#[tokio::test]
async fn addresses_can_have_certificates() {
    let authority = Authority::new();
    let origin = origin(authority.server("127.0.0.1", Validity::Now, &BOTH), hello).await;
    let client = trusting(&authority, origin.address);
    let response = client.fetch(get("https://0x7f.1/"), LOCAL).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_client_certificate_request_is_reported() {
    let authority = Authority::new();
    for demand in [Demand::Required, Demand::Wanted] {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let requests = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&requests);
            let origin = origin(
                authority.asking_server("site.test", demand, &[version]),
                move |request| {
                    count.fetch_add(1, SeqCst);
                    hello(request)
                },
            )
            .await;
            let client = trusting(&authority, origin.address);
            // The second request gives the same result: no part of the first connection is reused.
            for _ in 0..2 {
                let error = client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err();
                assert_eq!(
                    error,
                    FetchError::Tls(TlsDefect::ClientCertificate),
                    "{demand:?} {version:?}"
                );
            }
            let tunnel = client.connect_tls("site.test", 443, LOCAL).await;
            assert_eq!(tunnel.unwrap_err(), FetchError::Tls(TlsDefect::ClientCertificate));
            assert_eq!(requests.load(SeqCst), 0, "nothing was asked of it");
        }
    }
    // A defect of the origin's own certificate takes precedence.
    let origin = origin(
        Authority::new().asking_server("site.test", Demand::Required, rustls::ALL_VERSIONS),
        hello,
    )
    .await;
    let client = trusting(&authority, origin.address);
    let error = client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::Tls(TlsDefect::UnknownIssuer));
}

#[tokio::test]
async fn denied_keys_are_refused_anywhere_in_the_chain() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let (leaf, other) = (key_hash(&key), key_hash(&KeyPair::generate().unwrap()));
    let origin = origin(
        authority.server_with("site.test", Validity::Now, &BOTH, &key),
        hello,
    )
    .await;
    for (deny, name, expected) in [
        (vec![other], "site.test", None),
        (vec![other, leaf], "site.test", Some(TlsDefect::DeniedKey)),
        (
            vec![authority.key_hash()],
            "site.test",
            Some(TlsDefect::DeniedKey),
        ),
        (vec![other], "another.test", Some(TlsDefect::NameMismatch)),
    ] {
        let client = OriginClient::new(OriginConfig {
            extra_ca: vec![authority.pem()],
            deny_keys: deny.iter().copied().collect(),
            ..config_of(origin.address)
        })
        .unwrap();
        let answer = client.fetch(get(&format!("https://{name}/")), LOCAL).await;
        assert_eq!(answer.err(), expected.map(FetchError::Tls), "{deny:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_reported() {
    let origin = Origin::start(|_, mut stream| async move {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let client = OriginClient::new(config_of(origin.address)).unwrap();
    let error = client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::Tls(TlsDefect::NotTls));
}

#[tokio::test]
async fn a_stalled_or_broken_handshake_ends() {
    let hanging = Origin::start(|_, mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let timeouts = Timeouts {
        tls: Duration::from_millis(200),
        ..Timeouts::default()
    };
    let client = OriginClient::new(OriginConfig {
        timeouts,
        ..config_of(hanging.address)
    })
    .unwrap();
    let error = client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::Tls(TlsDefect::Timeout));

    let breaking = Origin::start(|_, mut stream| async move {
        let _ = stream.read(&mut [0; 16]).await;
    })
    .await;
    let client = OriginClient::new(config_of(breaking.address)).unwrap();
    assert_eq!(
        client.fetch(get("https://site.test/"), LOCAL).await.unwrap_err(),
        FetchError::Tls(TlsDefect::Closed)
    );
}

#[tokio::test]
async fn http2_headers_are_bounded() {
    let authority = Authority::new();
    let origin = origin(authority.server("site.test", Validity::Now, &BOTH), |_| {
        let field = "x".repeat(3000);
        Response::builder()
            .header("a", &field)
            .header("b", &field)
            .body(Full::default())
            .unwrap()
    })
    .await;
    let limits = Limits {
        header_bytes: ByteCount::kib(4),
        ..Limits::default()
    };
    let config = OriginConfig {
        extra_ca: vec![authority.pem()],
        limits,
        ..config_of(origin.address)
    };
    let error = OriginClient::new(config)
        .unwrap()
        .fetch(get("https://site.test/"), LOCAL)
        .await
        .unwrap_err();
    assert_eq!(error, FetchError::HeaderTooLarge);
}

/// The HTTP/2 origin drops its first connection when the second request arrives.
#[tokio::test]
async fn a_lost_http2_connection_repeats_only_idempotent_requests() {
    for (method, is_repeated) in [(Method::GET, true), (Method::POST, false)] {
        let authority = Authority::new();
        let acceptor = TlsAcceptor::from(Arc::new(authority.server("site.test", Validity::Now, &BOTH)));
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let origin = Origin::start(move |_, stream| {
            let (acceptor, seen) = (acceptor.clone(), Arc::clone(&count));
            async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let (lose, lost) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
                let signal = Arc::clone(&lose);
                let service = service_fn(move |_| {
                    let (signal, lost) = (Arc::clone(&signal), Arc::clone(&lost));
                    let number = seen.fetch_add(1, SeqCst);
                    async move {
                        if number == 1 {
                            signal.notify_one();
                            lost.notified().await;
                        }
                        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("ok")))
                    }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                tokio::select! {
                    _ = builder.serve_connection(TokioIo::new(stream), service) => {}
                    () = lose.notified() => {}
                }
            }
        })
        .await;
        let client = trusting(&authority, origin.address);
        text(client.fetch(get("https://site.test/"), LOCAL).await.unwrap())
            .await
            .unwrap();
        let request = Request::builder()
            .method(method)
            .uri("https://site.test/")
            .body(Full::<Bytes>::default())
            .unwrap();
        match client.fetch(request, LOCAL).await {
            Ok(response) => {
                assert!(is_repeated);
                assert_eq!(text(response).await.unwrap(), "ok");
            }
            Err(error) => {
                assert!(!is_repeated);
                assert_eq!(error, FetchError::Reset);
            }
        }
        assert_eq!(seen.load(SeqCst), if is_repeated { 3 } else { 2 });
        assert_eq!(client.stats().snapshot().retries, u64::from(is_repeated));
    }
}

#[tokio::test]
async fn bad_authorities_are_refused_at_the_start() {
    let client = |pem: &[u8]| {
        let extra_ca = vec![Authority::new().pem(), pem.to_vec()];
        OriginClient::new(OriginConfig {
            extra_ca,
            ..OriginConfig::default()
        })
        .unwrap_err()
    };
    assert_eq!(client(b"no pem"), OriginConfigError::NoCertificate { file: 2 });
    assert_eq!(client(b""), OriginConfigError::NoCertificate { file: 2 });
    let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(client(garbage), OriginConfigError::BadCertificate { file: 2 });
}
