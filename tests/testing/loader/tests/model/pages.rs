//! Whole pages from a real HTTP server.
use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{Request, Response, Version, header};
use hyper::body::{Bytes, Incoming};
use longhaul_loader::{
    ObjectClass, Outcome,
    model::{AcceptEncoding, Rules, load},
};

use crate::origin::{Origin, outcomes, redirect, scripted, status, typed};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// A page with objects of all kinds.
fn site(request: &Request<Incoming>) -> Response<Bytes> {
    match request.uri().path() {
        "/page" => {
            let html = "<link rel=stylesheet href=s.css><script src=x.js></script><img src=a.png><img src=moved.png>\
                <img src=missing.png><img src=a.png#again><iframe src=frame.html></iframe>";
            let accepts = request.headers().get(header::ACCEPT_ENCODING).unwrap();
            let mut response = typed("text/html; charset=utf-8", html);
            if accepts.to_str().unwrap().contains("gzip") {
                *response.body_mut() = gzip(html.as_bytes()).into();
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
            }
            response
        }
        "/s.css" => typed("text/css", "@import 'i.css'; a { background: url(bg.png) }"),
        "/i.css" => typed("text/css", "@font-face { src: url(f.woff2) }"),
        "/moved.png" => redirect("/b.png"),
        "/missing.png" => status(404),
        "/frame.html" => typed("text/html", "<img src=a.png><img src=in-frame.png>"),
        path => typed("image/png", path.as_bytes().to_vec()),
    }
}

const PATHS: [&str; 12] = [
    "/page",
    "/s.css",
    "/x.js",
    "/a.png",
    "/moved.png",
    "/missing.png",
    "/frame.html",
    "/i.css",
    "/bg.png",
    "/b.png",
    "/in-frame.png",
    "/f.woff2",
];

#[tokio::test]
async fn two_persistent_connections_load_everything_once() {
    let origin = Origin::start(site).await;
    let url = origin.url("http://www.a.test/page");
    let load = load(&url, &origin.options(), None).await.unwrap();
    assert_eq!(load.connections, 2);
    assert_eq!(load.dns_lookups, Some(1));
    assert_eq!(origin.names.asked(), ["www.a.test"]);
    assert_eq!(load.pipelining_factor, Some(1.0));
    let mut asked = origin.paths();
    // The first seven are requested in the order in which the page refers to them.
    assert_eq!(asked[..3], PATHS[..3]);
    asked.sort_unstable();
    let mut expected = PATHS.to_vec();
    expected.sort_unstable();
    assert_eq!(asked, expected);
    for object in &load.objects {
        let missing = object.url.path() == "/missing.png";
        assert_eq!(
            object.outcome,
            if missing {
                Outcome::Missing
            } else {
                Outcome::Delivered
            },
            "{object:?}"
        );
        assert!(
            object.discovered <= object.sent.unwrap() && object.sent <= object.first_byte,
            "{object:?}"
        );
        assert!(
            object.first_byte <= object.ended && object.ended.unwrap() <= load.time,
            "{object:?}"
        );
    }
    let found = |path: &str| {
        load.objects
            .iter()
            .find(|object| object.url.path() == path)
            .unwrap()
    };
    assert_eq!(found("/a.png").body_hash, Some(blake3::hash(b"/a.png").into()));
    assert_eq!(
        (found("/a.png").body_bytes, found("/a.png").coded_bytes),
        (6, Some(6))
    );
    assert_eq!(found("/moved.png").status, Some(302));
    assert_eq!(found("/missing.png").status, Some(404));
    assert_eq!(found("/f.woff2").class, ObjectClass::Font);
    assert_eq!(found("/frame.html").class, ObjectClass::Document);
    let seen = origin.seen();
    let headers = |path: &str| &seen.iter().find(|seen| seen.path == path).unwrap().headers;
    assert_eq!(headers("/a.png")["accept"], "image/webp,image/*,*/*;q=0.8");
    assert_eq!(headers("/s.css")["accept"], "text/css,*/*;q=0.1");
    assert_eq!(headers("/a.png")["referer"], url.as_str());
    assert_eq!(
        headers("/in-frame.png")["referer"],
        origin.url("http://www.a.test/frame.html").as_str()
    );
    assert_eq!(headers("/page")["accept-encoding"], "identity");
    assert!(headers("/page").get("referer").is_none());
}

#[tokio::test]
async fn http_1_0_opens_a_connection_for_each_object() {
    let origin = Origin::start(site).await;
    let mut options = origin.options();
    options.rules = Rules::Http10;
    let load = load(&origin.url("http://a.test/page"), &options, None)
        .await
        .unwrap();
    assert_eq!(load.connections, 12);
    assert_eq!(load.pipelining_factor, Some(1.0));
    let seen = origin.seen();
    assert_eq!(seen.len(), 12);
    assert!(seen.iter().all(|seen| seen.version == Version::HTTP_10));
    let mut connections: Vec<usize> = seen.iter().map(|seen| seen.connection).collect();
    connections.dedup();
    assert_eq!(connections.len(), 12);
}

#[tokio::test]
async fn gzip_is_offered_and_decoded_incrementally() {
    let origin = Origin::start(site).await;
    let mut options = origin.options();
    options.accept_encoding = AcceptEncoding::Gzip;
    let zipped = load(&origin.url("http://a.test/page"), &options, None)
        .await
        .unwrap();
    options.accept_encoding = AcceptEncoding::Identity;
    let plain = load(&origin.url("http://a.test/page"), &options, None)
        .await
        .unwrap();
    assert_eq!(outcomes(&zipped), outcomes(&plain));
    let (zipped, plain) = (&zipped.objects[0], &plain.objects[0]);
    assert_eq!(
        (zipped.body_hash, zipped.body_bytes),
        (plain.body_hash, plain.body_bytes)
    );
    assert!(zipped.coded_bytes.unwrap() < plain.coded_bytes.unwrap());
}

#[tokio::test]
async fn each_host_has_separate_connections_and_queries() {
    let html = "<img src=http://b.test:PORT/1><img src=http://gone.test:PORT/2><img src=http://b.test:PORT/3>\
        <img src=http://gone.test:PORT/4><img src=http://127.0.0.1:PORT/5>";
    let origin = Origin::start(move |request| match request.uri().path() {
        "/page" => {
            let host = request.headers()["host"].to_str().unwrap();
            typed("text/html", html.replace("PORT", host.split(':').nth(1).unwrap()))
        }
        path => typed("image/png", path.to_owned()),
    })
    .await;
    let load = load(&origin.url("http://a.test/page"), &origin.options(), None)
        .await
        .unwrap();
    assert_eq!(load.connections, 1 + 2 + 1);
    assert_eq!(load.dns_lookups, Some(3));
    assert_eq!(origin.names.asked(), ["a.test", "b.test", "gone.test"]);
    let outcomes = outcomes(&load);
    assert_eq!(outcomes["/2"], "Missing");
    assert_eq!(outcomes["/4"], "Missing");
    assert_eq!(
        outcomes
            .values()
            .filter(|outcome| *outcome == "Delivered")
            .count(),
        4
    );
}

#[tokio::test]
async fn cookies_are_stored_and_a_redirect_to_the_same_url_is_requested_again() {
    let origin = Origin::start(|request| {
        let cookie = request
            .headers()
            .get("cookie")
            .map(|cookie| cookie.to_str().unwrap().to_owned());
        match (request.uri().path(), cookie.as_deref()) {
            ("/page", None) => redirect("/consent"),
            ("/consent", _) => {
                let mut response = redirect("/page#top");
                response
                    .headers_mut()
                    .insert("set-cookie", "yes=1".parse().unwrap());
                response
            }
            ("/page", Some("yes=1")) => typed("text/html", "<img src=i.png>"),
            ("/i.png", Some("yes=1")) => typed("image/png", "x"),
            _ => status(403),
        }
    })
    .await;
    let load = load(&origin.url("http://a.test/page"), &origin.options(), None)
        .await
        .unwrap();
    assert_eq!(origin.paths(), ["/page", "/consent", "/page", "/i.png"]);
    assert!(
        load.objects
            .iter()
            .all(|object| object.outcome == Outcome::Delivered),
        "{load:?}"
    );
}

#[tokio::test]
async fn https_uses_the_given_trust() {
    let origin = Origin::start_https(site).await;
    let url = origin.url("https://a.test/page");
    let page = load(&url, &origin.options(), None).await.unwrap();
    assert_eq!(page.objects.len(), 12);
    assert_eq!(page.connections, 2);
    let mut options = origin.options();
    options.trust = longhaul_replay::page::client_trust(&[]).unwrap();
    let error = load(&url, &options, None).await.unwrap_err();
    assert!(
        error.to_string().contains("TLS handshake with a.test failed"),
        "{error}"
    );
}

#[tokio::test]
async fn references_at_the_start_are_requested_before_the_end_of_the_page() {
    let (asked, mut wait) = tokio::sync::mpsc::channel::<()>(1);
    let wait = parking_lot::Mutex::new(Some(async move { wait.recv().await }));
    let address = scripted(move |_, mut peer| {
        let asked = asked.clone();
        let wait = std::mem::take(&mut *wait.lock());
        async move {
            while let Some(path) = peer.request().await {
                if path == "/page" {
                    let head =
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
                    peer.send(head).await;
                    peer.send("13\r\n<img src=first.png>\r\n").await;
                    // Only the request for the image ends this wait.
                    if let Some(wait) = wait {
                        wait.await.unwrap();
                    }
                    peer.send("12\r\n<img src=last.png>\r\n0\r\n\r\n").await;
                    return while let Some(path) = peer.request().await {
                        peer.answer(&path).await;
                    };
                }
                peer.answer(&path).await;
                let _ = asked.send(()).await;
            }
        }
    })
    .await;
    let origin = Origin::start(site).await;
    let url = format!("http://{address}/page").parse().unwrap();
    let load = load(&url, &origin.options(), None).await.unwrap();
    let paths: Vec<&str> = load.objects.iter().map(|object| object.url.path()).collect();
    assert_eq!(paths, ["/page", "/first.png", "/last.png"]);
    let [page, first, last] = load.objects.as_slice() else {
        panic!("three objects")
    };
    assert!(first.ended.unwrap() <= page.ended.unwrap());
    assert!(last.discovered <= page.ended.unwrap());
    assert_eq!((load.connections, load.dns_lookups), (2, Some(0)));
}
