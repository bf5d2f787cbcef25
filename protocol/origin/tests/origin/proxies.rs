//! Requests through an HTTP proxy, and hosts that are never reached through one.
use std::{net::SocketAddr, sync::Arc};

use http::{Request, header::PROXY_AUTHORIZATION};
use longhaul_origin::{AddressClass, FetchError, Guard, OriginClient, OriginConfig, ResolveMap};
use longhaul_proxy::{Credentials, Exceptions, HttpProxy};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;

use crate::rig::{LOCAL, Origin, get, read_head, text};

const OWN: &str = "8.8.4.4";

/// Starts a proxy that serves each request itself; returns the heads that it receives.
async fn proxy() -> (Origin, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let heads = Arc::clone(&seen);
    let proxy = Origin::start(move |_, mut stream| {
        let seen = Arc::clone(&heads);
        async move {
            while let Some(head) = read_head(&mut stream).await {
                let answer = match head.split(' ').nth(1).unwrap_or_default() {
                    url if url.ends_with("/login") => {
                        "HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n"
                    }
                    url if url.ends_with("/forbidden") => "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
                    _ if head.starts_with("CONNECT ") => "HTTP/1.1 200 OK\r\n\r\n",
                    _ => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes",
                };
                seen.lock().push(head);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    (proxy, seen)
}

fn client(proxy: &Origin, credentials: Option<&str>, inside: SocketAddr) -> OriginClient {
    let url = format!("http://{}", proxy.address).parse().unwrap();
    let proxy = HttpProxy::new(url, Exceptions::default());
    let proxy = match credentials {
        None => proxy,
        Some(text) => proxy.with_credentials(Credentials::parse(text).unwrap()),
    };
    OriginClient::new(OriginConfig {
        proxy: Some(proxy),
        resolve: ResolveMap::parse([("inside.test", inside.to_string())]).unwrap(),
        guard: Guard::new([], [OWN.parse().unwrap()]),
        ..OriginConfig::default()
    })
    .unwrap()
}

#[tokio::test]
async fn a_proxy_gets_the_whole_url_and_its_own_credentials() {
    let (proxy, seen) = proxy().await;
    for (credentials, expected) in [
        (None, vec![]),
        (Some("name:word"), vec!["proxy-authorization: Basic bmFtZTp3b3Jk"]),
    ] {
        let client = client(&proxy, credentials, proxy.address);
        for (url, host) in [
            ("http://site.test:81/x?y", "host: site.test:81"),
            ("http://8.8.8.8/", "host: 8.8.8.8"),
        ] {
            let mut request = get(url);
            let foreign = "Basic foreign".parse().unwrap();
            request.headers_mut().insert(PROXY_AUTHORIZATION, foreign);
            let response = client.fetch(request, LOCAL).await.unwrap();
            assert_eq!(text(response).await.unwrap(), "yes");
            let head = seen.lock().pop().unwrap();
            let lines: Vec<&str> = head.lines().collect();
            assert_eq!(lines[0], format!("GET {url} HTTP/1.1"));
            assert!(lines.contains(&host), "{head}");
            let fields = lines.iter().copied();
            let sent: Vec<_> = fields
                .filter(|line| line.starts_with("proxy-authorization"))
                .collect();
            assert_eq!(sent, expected);
        }
    }
}

#[tokio::test]
async fn a_tunnel_through_a_proxy_names_its_host() {
    let (proxy, seen) = proxy().await;
    let client = client(&proxy, None, proxy.address);
    for (host, expected) in [
        ("site.test", "CONNECT site.test:443 HTTP/1.1"),
        ("8.8.8.8", "CONNECT 8.8.8.8:443 HTTP/1.1"),
        ("2606:4700::1", "CONNECT [2606:4700::1]:443 HTTP/1.1"),
    ] {
        assert!(client.connect_tcp(host, 443, LOCAL).await.is_ok(), "{host}");
        let head = seen.lock().pop().unwrap();
        assert_eq!(head.lines().next(), Some(expected));
    }
}

#[tokio::test]
async fn hosts_of_this_network_are_never_reached_through_the_proxy() {
    let (proxy, seen) = proxy().await;
    let inside = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ninside").await;
    let client = client(&proxy, None, inside.address);
    let response = client.fetch(get("http://inside.test/"), LOCAL).await.unwrap();
    assert_eq!(text(response).await.unwrap(), "inside");
    for (host, class) in [
        ("localhost", AddressClass::Loopback),
        ("a.localhost", AddressClass::Loopback),
        ("127.0.0.1", AddressClass::Loopback),
        ("10.0.0.1", AddressClass::Private),
        ("[::ffff:169.254.169.254]", AddressClass::Metadata),
        (OWN, AddressClass::Own),
    ] {
        let fetched = client
            .fetch(get(&format!("http://{host}/")), LOCAL)
            .await
            .map(drop);
        let tunnel = client.connect_tcp(host, 443, LOCAL).await.map(drop);
        for result in [fetched, tunnel] {
            match result {
                Err(FetchError::GuardRefused(refusal)) => assert_eq!(refusal.class, class, "{host}"),
                other => panic!("{host}: {other:?}"),
            }
        }
    }
    assert!(seen.lock().is_empty());
}

#[tokio::test]
async fn only_the_proxys_wish_for_a_login_is_its_error() {
    let (proxy, _seen) = proxy().await;
    let client = client(&proxy, None, proxy.address);
    let request = || Request::get("http://site.test/forbidden").body(http_body_util::Empty::new());
    let response = client.fetch(request().unwrap(), LOCAL).await.unwrap();
    assert_eq!(response.status(), 403);
    let error = client
        .fetch(get("http://site.test/login"), LOCAL)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Proxy(_)), "{error:?}");
    // An origin that is reached directly may answer so as well: that is a response.
    let odd = Origin::answering("HTTP/1.1 407 Odd\r\nContent-Length: 0\r\n\r\n").await;
    let response = crate::rig::client_of(odd.address);
    let response = response.fetch(get("http://site.test/"), LOCAL).await.unwrap();
    assert_eq!(response.status(), 407);
}
