//! The TLS port of the proxy on which agents open links, too.
use http::header;
use longhaul_carriers::upgrade;
use longhaul_gateway::{Server, ServerError};
use longhaul_gateway_core::config::{Environment, SettingArgs, resolve, settings};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{
    ELSEWHERE,
    access::{credentials, with_clients},
    get, http2,
    secure::{Secure, certify, connect_with, start_in},
    status,
};
use crate::store::numbered;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// An address with a free TCP port. No connection of another test takes it: they begin at 127.0.0.1.
async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.6:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A proxy inside TLS for those who know a password, on the port of the carrier `tls`.
async fn start(home: TempDir) -> Secure {
    let address = free_address().await;
    let secure = start_in(home, ELSEWHERE, |flags| {
        *flags = std::mem::take(flags)
            .with(&settings::CLIENTLESS_TLS, &address)
            .with(&settings::CARRIERS_TLS, &address);
    })
    .await;
    assert_eq!(secure.address.to_string(), address);
    secure
}

fn path(secure: &Secure) -> String {
    upgrade::path(&secure.gateway.keys().secret.public())
}

/// Sends a request for a link; returns the beginning of the answer.
async fn ask_for_link(secure: &Secure) -> String {
    let gateway = secure.gateway.keys().secret.public();
    let request = upgrade::request(&gateway, "localhost", KEY, None);
    let mut connection = secure.connect(&[b"http/1.1"]).await;
    // In pieces, as a slow link brings them.
    for piece in request.as_bytes().chunks(40) {
        connection.write_all(piece).await.unwrap();
        connection.flush().await.unwrap();
    }
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn strangers_get_the_answers_of_the_proxy_and_agents_their_links() {
    let (home, _, [password]) = with_clients(["ann"]);
    let secure = start(home).await;
    let (url, log) = numbered(&[]).await;
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: gw.test\r\nConnection: close\r\n\r\n");
    let path = path(&secure);
    let longer = format!("{path}/x");
    for path in ["/", "/index.html", &path, &longer] {
        let answer = secure.exchange(&ask(path)).await;
        assert_eq!(status(answer.as_bytes()), 404, "{answer}");
    }
    let script = secure.exchange(&ask("/proxy.pac")).await;
    assert!(script.contains("\"HTTPS gw.test:443; DIRECT\""), "{script}");
    assert_eq!(status(secure.exchange(&get(&url, "")).await.as_bytes()), 407);
    let answer = secure.exchange(&get(&url, &credentials("ann", &password))).await;
    assert_eq!(status(answer.as_bytes()), 200, "{answer}");
    assert_eq!(log.count(), 1);
    let malformed = secure.exchange("GET / HTTP/1.1\nHost: gw.test\r\n\r\n").await;
    assert_eq!(status(malformed.as_bytes()), 400, "{malformed}");
    assert_eq!(ask_for_link(&secure).await, "HTTP/1.1 101");
    let browser = http2::client(&secure).await;
    let right = credentials("ann", &password);
    let (_, right) = right.lines().next().unwrap().split_once(": ").unwrap();
    for (authorization, expected) in [(None, 407), (Some(right), 200)] {
        let mut request = http2::get(&url);
        if let Some(value) = authorization {
            let value = value.parse().unwrap();
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        let response = http2::send(&browser, request).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

/// Who guesses passwords is no client of the proxy any more; an agent behind the same address still opens links.
#[tokio::test]
async fn an_address_that_guesses_passwords_keeps_its_links() {
    let (home, _, _) = with_clients(["ann"]);
    let secure = start(home).await;
    let (url, log) = numbered(&[]).await;
    let wrong = get(&url, &credentials("ann", "x"));
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(secure.exchange(&wrong).await);
    }
    assert_eq!(status(answers[0].as_bytes()), 407);
    assert_eq!(answers.last().map(String::as_str), Some(""));
    assert_eq!(log.count(), 0);
    assert_eq!(ask_for_link(&secure).await, "HTTP/1.1 101");
}

/// The limit of connections that may become links: a connection leaves it with its first request.
#[tokio::test]
async fn connections_without_a_request_are_few() {
    const MOST: usize = 32;
    let (home, _, _) = with_clients(["ann"]);
    let secure = start(home).await;
    let connect = async || connect_with(secure.address, secure.trust.clone(), &[b"http/1.1"]).await;
    let mut idle = Vec::new();
    // On a slow machine the first ones have become clients of the proxy before the last ones are open.
    while let Ok(connection) = connect().await {
        idle.push(connection);
        assert!(idle.len() < 8 * MOST, "there is no limit");
    }
    assert!(idle.len() >= MOST, "{}", idle.len());
    let mut last = idle.pop().unwrap();
    last.write_all(b"GET / HTTP/1.1\r\nHost: gw.test\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    last.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
    assert!(connect().await.is_ok());
}

#[tokio::test]
async fn the_shared_port_has_one_certificate() {
    let home = tempfile::tempdir().unwrap();
    certify(home.path());
    let file = |name: &str| home.path().join(name).display().to_string();
    std::fs::copy(file("cert.pem"), file("other.pem")).unwrap();
    let address = free_address().await;
    let args = SettingArgs::default()
        .with(&settings::LISTEN, "127.0.0.1:0")
        .with(&settings::STATE_DIR, &file("state"))
        .with(&settings::CLIENTLESS_ALLOW, ELSEWHERE)
        .with(&settings::CLIENTLESS_TLS, &address)
        .with(&settings::CLIENTLESS_CERTIFICATE, &file("cert.pem"))
        .with(&settings::CLIENTLESS_KEY, &file("key.pem"))
        .with(&settings::CARRIERS_TLS, &address)
        .with(&settings::CARRIERS_KEY, &file("key.pem"));
    for (certificate, is_refused) in [("other.pem", true), ("cert.pem", false)] {
        let args = args.clone().with(&settings::CARRIERS_CERT, &file(certificate));
        let (config, _) = resolve(&args, &Environment::new()).unwrap();
        match Server::bind(&config).await {
            Err(ServerError::Carrier(error)) => {
                assert!(
                    is_refused && error.to_string().contains("clientless.certificate"),
                    "{error}"
                );
            }
            Err(error) => panic!("{error}"),
            Ok(server) => {
                assert!(!is_refused);
                assert_eq!(server.tls_addr(), server.clientless_tls_addr());
            }
        }
    }
}
