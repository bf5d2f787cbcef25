//! Who is served: the proxy is never open, and clients are isolated from each other.
use std::{net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_clientless::{AccessError, ClientlessError};
use longhaul_gateway::{Server, ServerError};
use longhaul_gateway_core::{
    admission::{
        clients::{Clients, PasswordKey},
        state::StateDir,
    },
    config::{Environment, SettingArgs, resolve, settings},
};
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use super::{ELSEWHERE, LOCAL, exchange, exchange_text, get, start, start_in, start_with, status};
use crate::{origin::serve_tcp, store::numbered};

/// Limit of a wait for an event; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
const FROM: &str = "Referer: http://a.test/\r\n";

/// A state directory with clients; returns their passwords.
pub(crate) fn with_clients<const N: usize>(names: [&str; N]) -> (TempDir, StateDir, [String; N]) {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(&home.path().join("state")).unwrap();
    let passwords = names.map(|name| add(&state, name));
    (home, state, passwords)
}

/// Adds a client; returns its password.
fn add(state: &StateDir, name: &str) -> String {
    let key = PasswordKey::derived_from(&state.keys().unwrap().secret);
    Clients::add(state, &key, name, std::time::SystemTime::now()).unwrap()
}

pub(crate) fn credentials(name: &str, password: &str) -> String {
    let token = STANDARD.encode(format!("{name}:{password}"));
    format!("Proxy-Authorization: Basic {token}\r\n{FROM}")
}

async fn text(proxy: SocketAddr, url: &str, fields: &str) -> (u16, String) {
    let answer = exchange_text(proxy, &get(url, fields)).await;
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
    (status(answer.as_bytes()), body)
}

#[tokio::test]
async fn no_configuration_starts_an_open_proxy() {
    let home = tempfile::tempdir().unwrap();
    let flags = || {
        SettingArgs::default()
            .with(&settings::LISTEN, "127.0.0.1:0")
            .with(&settings::STATE_DIR, home.path().join("state").to_str().unwrap())
            .with(&settings::CLIENTLESS_LISTEN, "127.0.0.1:0")
    };
    let bind = async |flags: SettingArgs| {
        let (config, _) = resolve(&flags, &Environment::new()).unwrap();
        match Server::bind(&config).await {
            Err(ServerError::Clientless(ClientlessError::Access(error))) => error,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("an open proxy"),
        }
    };
    let error = bind(flags()).await;
    assert!(matches!(error, AccessError::NobodyAllowed));
    assert!(error.to_string().contains("set clientless.allow"), "{error}");
    let required = flags().with(&settings::CLIENTLESS_PASSWORDS, "required");
    assert!(matches!(bind(required.clone()).await, AccessError::NobodyAllowed));
    let error = bind(required.with(&settings::CLIENTLESS_ALLOW, "127.0.0.1")).await;
    assert!(matches!(error, AccessError::NoPasswords));
    assert!(error.to_string().contains("client add"), "{error}");
    for open in ["0.0.0.0/0", "::/0", "::ffff:0:0/96", "0.0.0.0/1"] {
        let flags = flags().with(&settings::CLIENTLESS_ALLOW, open);
        let mistakes = resolve(&flags, &Environment::new()).unwrap_err().to_string();
        assert!(mistakes.contains("clientless.allow"), "{mistakes}");
    }
}

#[tokio::test]
async fn a_scanner_from_outside_of_the_networks_gets_nothing_relayed() {
    let (touched, mut touches) = tokio::sync::mpsc::unbounded_channel();
    let port = serve_tcp(move |_| {
        let touched = touched.clone();
        async move { touched.send(()).unwrap() }
    })
    .await;
    let (home, _, [password]) = with_clients(["ann"]);
    let change = |flags: &mut SettingArgs| {
        *flags = std::mem::take(flags)
            .with(&settings::CLIENTLESS_PORTS, &port.to_string())
            .with(&settings::CLIENTLESS_TRANSPARENT, "127.0.0.1:0")
            .with(&settings::DNS_LISTEN, "127.0.0.1:0")
            .with(&settings::DNS_NAMES, "boosted.test");
    };
    let (outside, proxy) = start_in(home, ELSEWHERE, change).await;
    // A client is no stranger, but its connections to the port for redirected ones are.
    let (inside, _) = start_in(tempfile::tempdir().unwrap(), LOCAL, change).await;
    let ports = [proxy, outside.transparent[0], inside.transparent[0]];
    let target = format!("a.test:{port}");
    let own = proxy.to_string();
    let known = credentials("ann", &password);
    let mut requests = Vec::new();
    for method in [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "get", "X",
    ] {
        for (uri, host) in [
            (format!("http://{target}/"), &target),
            (format!("HTTP://{target}/"), &target),
            (format!("http://A.TEST:{port}/"), &target),
            (format!("http://{target}/"), &own),
            ("/".to_owned(), &target),
            (format!("/http://{target}/"), &target),
            ("*".to_owned(), &target),
            ("/proxy.pac".to_owned(), &own),
            (target.clone(), &target),
        ] {
            for version in ["1.1", "1.0"] {
                requests.push(format!("{method} {uri} HTTP/{version}\r\nHost: {host}\r\n\r\n"));
            }
        }
    }
    for uri in [
        target.clone(),
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("2130706433:{port}"),
        format!("http://{target}"),
        format!("/{target}"),
        "a.test".to_owned(),
        own.clone(),
    ] {
        requests.push(format!("CONNECT {uri} HTTP/1.1\r\nHost: {uri}\r\n\r\nhello"));
        requests.push(format!("CONNECT {uri} HTTP/1.0\r\n\r\nhello"));
    }
    for fields in [
        known.as_str(),
        "X-Forwarded-For: 192.0.2.1\r\n",
        "Forwarded: for=192.0.2.1\r\n",
        "Client-IP: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n",
        "Via: 1.1 proxy\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    ] {
        requests.push(format!(
            "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n"
        ));
        requests.push(format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{fields}\r\n"
        ));
    }
    // SOCKS and HTTP/2.
    requests.push("\x05\x01\0".to_owned());
    requests.push("\x04\x01\0\x50\x7f\0\0\x01\0\r\n\r\n".to_owned());
    requests.push("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned());
    for request in &requests {
        // Behind a complete request there is nothing more to come.
        let whole = format!("{request}\r\n\r\n");
        for port in ports {
            let answer = exchange(port, whole.as_bytes()).await;
            assert!(
                [0, 400, 404].contains(&status(&answer)),
                "{port} {request}: {}",
                answer.escape_ascii()
            );
        }
    }
    assert!(touches.try_recv().is_err(), "a request was relayed");
}

#[tokio::test]
async fn wrong_passwords_are_limited() {
    let (home, state, [password]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, LOCAL, |flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PASSWORDS, "required");
    })
    .await;
    let (url, log) = numbered(&[]).await;
    let answer = exchange_text(proxy, &get(&url, "")).await;
    assert_eq!(status(answer.as_bytes()), 407);
    assert!(answer.contains("proxy-authenticate: Basic realm="), "{answer}");
    let right = credentials("ann", &password);
    assert_eq!(text(proxy, &url, &right).await, (200, "answer 1".to_owned()));
    assert!(!log.last().contains_key("proxy-authorization"));
    for wrong in [
        credentials("ann", ""),
        credentials("bob", &password),
        right.replace("Basic", "Bearer"),
        format!("{right}{right}"),
    ] {
        assert_eq!(text(proxy, &url, &wrong).await.0, 407);
    }
    assert_eq!(text(proxy, &url, &right).await.0, 200, "four are allowed");
    assert_eq!(text(proxy, &url, &credentials("ann", "x")).await.0, 407);
    // Now the address gets no answer, whatever it knows.
    assert_eq!(text(proxy, &url, &right).await.0, 0);
    assert_eq!(text(proxy, &url, "").await.0, 0);
    assert_eq!(log.count(), 2);
    drop(state);
}

#[tokio::test]
async fn a_client_that_is_removed_is_refused() {
    let (home, state, [password]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, LOCAL, |_| {}).await;
    let (url, _) = numbered(&[]).await;
    let fields = credentials("ann", &password);
    assert_eq!(text(proxy, &url, &fields).await.0, 200);
    Clients::remove(&state, "ann").unwrap();
    until_refused(proxy, &url, &fields).await;
}

/// Waits until the proxy has noticed that a client was removed.
async fn until_refused(proxy: SocketAddr, url: &str, fields: &str) {
    let mut looks = interval(Duration::from_millis(400));
    let refused = async {
        loop {
            looks.tick().await;
            match text(proxy, url, fields).await.0 {
                200 => {}
                status => break assert_eq!(status, 407),
            }
        }
    };
    timeout(LIMIT, refused).await.unwrap();
}

#[tokio::test]
async fn who_gets_the_name_of_a_removed_client_gets_nothing_that_was_kept_for_it() {
    let (home, state, [earlier]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, LOCAL, |_| {}).await;
    let earlier = credentials("ann", &earlier);
    let (url, log) = numbered(&[("cache-control", "private, max-age=600")]).await;
    for _ in 0..2 {
        assert_eq!(text(proxy, &url, &earlier).await.1, "answer 1");
    }
    Clients::remove(&state, "ann").unwrap();
    let later = credentials("ann", &add(&state, "ann"));
    until_refused(proxy, &url, &earlier).await;
    assert_eq!(text(proxy, &url, &later).await, (200, "answer 2".to_owned()));
    assert_eq!(log.count(), 2);
}

#[tokio::test]
async fn private_responses_are_kept_for_each_name_and_for_no_client_without_one() {
    let (home, _, [ann, bob]) = with_clients(["ann", "bob"]);
    let (_gateway, proxy) = start_in(home, LOCAL, |_| {}).await;
    let (ann, bob) = (credentials("ann", &ann), credentials("bob", &bob));
    let (url, log) = numbered(&[("cache-control", "private, max-age=600")]).await;
    let body = async |fields: &str| text(proxy, &url, fields).await.1;
    assert_eq!(body(&ann).await, "answer 1");
    assert_eq!(body(&ann).await, "answer 1", "kept for ann");
    assert_eq!(body(&bob).await, "answer 2", "not for bob");
    assert_eq!(body(FROM).await, "answer 3", "nor for clients without a name");
    assert_eq!(body(FROM).await, "answer 4", "for which nothing private is kept");
    assert_eq!(body(&ann).await, "answer 1");
    assert_eq!(log.count(), 4);
    let (url, log) = numbered(&[("cache-control", "public, max-age=600")]).await;
    for fields in [&ann, &bob, FROM] {
        assert_eq!(text(proxy, &url, fields).await.1, "answer 1", "shared by all");
    }
    assert_eq!(log.count(), 1);
}

#[tokio::test]
async fn responses_to_cookies_are_for_their_sender_alone() {
    let (_gateway, proxy) = start().await;
    let (url, log) = numbered(&[("cache-control", "max-age=600")]).await;
    let with = |cookie: &str| format!("{FROM}Cookie: {cookie}\r\n");
    assert_eq!(text(proxy, &url, &with("user=ann")).await.1, "answer 1");
    assert_eq!(text(proxy, &url, &with("user=bob")).await.1, "answer 2");
    assert_eq!(text(proxy, &url, &with("user=ann")).await.1, "answer 3");
    assert_eq!(text(proxy, &url, FROM).await.1, "answer 4");
    assert_eq!(log.count(), 4);
}

#[tokio::test]
async fn passwords_are_for_allowed_networks_only_because_this_port_is_not_encrypted() {
    let (home, _, [password]) = with_clients(["ann"]);
    let (_gateway, proxy) = start_in(home, ELSEWHERE, |_| {}).await;
    let (url, log) = numbered(&[]).await;
    assert_eq!(text(proxy, &url, &credentials("ann", &password)).await.0, 404);
    assert_eq!(log.count(), 0);
    let (_other, open) = start_with(|_| {}).await;
    assert_eq!(text(open, &url, "").await.0, 200);
}
