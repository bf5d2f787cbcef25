//! Loads through an HTTP proxy.
use std::sync::Arc;

use parking_lot::Mutex;

use longhaul_loader::{
    Outcome,
    model::{ModelError, ModelOptions, Route, Rules, load},
};
use tokio::{io::copy_bidirectional, net::TcpStream};
use url::Url;

use crate::origin::{Origin, outcomes, scripted, status, typed};

fn options(proxy: std::net::SocketAddr, origin: &Origin) -> ModelOptions {
    let mut options = origin.options();
    options.route = Route::Proxy(proxy);
    options.rules = Rules::persistent(6);
    options
}

#[tokio::test]
async fn a_proxied_load_shares_connections_and_resolves_no_names() {
    let targets: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let log = Arc::clone(&targets);
    let proxy = scripted(move |connection, mut peer| {
        let log = Arc::clone(&log);
        async move {
            while let Some(target) = peer.request().await {
                log.lock().push((connection, target.clone()));
                if target == "http://a.test/" {
                    // One after the other, so that one connection is sufficient.
                    peer.answer("<link rel=stylesheet href=http://b.test/s.css>")
                        .await;
                } else if target.ends_with(".css") {
                    let css = "a { background: url(http://gone.test/i.png) }";
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: {}",
                        css.len()
                    );
                    peer.send(&format!("{head}\r\n\r\n{css}")).await;
                } else {
                    peer.send(
                        "HTTP/1.1 502 Bad Gateway\r\nProxy-Status: longhaul; details=\"DnsNotFound: x\"\r\n",
                    )
                    .await;
                    peer.send("Content-Length: 0\r\n\r\n").await;
                }
            }
        }
    })
    .await;
    let origin = Origin::start(|_| status(404)).await;
    let url: Url = "http://a.test/".parse().unwrap();
    let load = load(&url, &options(proxy, &origin), None).await.unwrap();
    let targets = targets.lock().clone();
    let expected = ["http://a.test/", "http://b.test/s.css", "http://gone.test/i.png"];
    assert_eq!(targets, expected.map(|target| (0, target.to_owned())));
    assert_eq!((load.connections, load.dns_lookups), (1, Some(0)));
    assert_eq!(outcomes(&load)["/i.png"], "Missing");
    assert!(origin.names.asked().is_empty());
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let origin = Origin::start_https(|request| match request.uri().path() {
        "/" => typed("text/html", "<img src=i.png><img src=https://closed.test/x.png>"),
        path => typed("image/png", path.to_owned()),
    })
    .await;
    let address = origin.address;
    let proxy = scripted(move |_, mut peer| async move {
        let Some(target) = peer.request().await else {
            return;
        };
        if target.starts_with("closed.test") {
            return peer
                .send("HTTP/1.1 503 No\r\nProxy-Status: x; error=connection_refused\r\n\r\n")
                .await;
        }
        peer.send("HTTP/1.1 200 Connected\r\nX: y\r\n\r\n").await;
        let mut upstream = TcpStream::connect(address).await.unwrap();
        let _ = copy_bidirectional(&mut peer.0, &mut upstream).await;
    })
    .await;
    let options = options(proxy, &origin);
    let page = load(&"https://a.test/".parse().unwrap(), &options, None)
        .await
        .unwrap();
    assert_eq!(page.objects[1].outcome, Outcome::Delivered);
    let Outcome::Failed(reason) = &page.objects[2].outcome else {
        panic!("no such tunnel")
    };
    assert!(
        reason.contains("503") && reason.contains("connection_refused"),
        "{reason}"
    );
    let error = load(&"https://closed.test/".parse().unwrap(), &options, None)
        .await
        .unwrap_err();
    assert!(
        matches!(error, ModelError::Proxy { status, .. } if status.as_u16() == 503),
        "{error}"
    );
}

#[tokio::test]
async fn errors_of_the_proxy_are_reported() {
    let proxy = scripted(|_, mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 504 Late\r\nProxy-Status: longhaul; details=\"no gateway\"\r\nContent-Length: 0\r\n\r\n").await;
        peer.request().await;
    })
    .await;
    let origin = Origin::start(|_| status(404)).await;
    let error = load(&"http://a.test/".parse().unwrap(), &options(proxy, &origin), None)
        .await
        .unwrap_err();
    let reason = "longhaul; details=\"no gateway\"".to_owned();
    assert!(
        matches!(&error, ModelError::Proxy { status, reason: description } if status.as_u16() == 504 && *description == reason),
        "{error}"
    );
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let error = load(
        &"http://a.test/".parse().unwrap(),
        &options(closed, &origin),
        None,
    )
    .await
    .unwrap_err();
    assert!(
        error.to_string().contains(&format!("the proxy at {closed}")),
        "{error}"
    );
}
