//! The page and its views over real sockets, with two direct proxies and a scripted control port.
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_netem::Profile;
use longhaul_replay::{
    origin::{Content, Origin, VirtualHost as _},
    page::Expectation,
    tls::TestAuthority,
};
use longhaul_types::ByteCount;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use super::*;
use crate::{
    emulation::{Names, hop},
    measurement::{Comparison, Way},
    overrides::Override,
    site::Site,
};

struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

async fn request(address: SocketAddr, method: Method, path: &str, fields: &[(&str, &str)]) -> Response {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let own = address.to_string();
    let host = fields
        .iter()
        .find(|(name, _)| *name == "host")
        .map_or(own.as_str(), |(_, host)| host);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host);
    for (name, value) in fields.iter().filter(|(name, _)| *name != "host") {
        request = request.header(*name, *value);
    }
    let response = sender
        .send_request(request.body(Empty::<Bytes>::new()).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    Response {
        status: head.status,
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(address: SocketAddr, path: &str) -> Response {
    request(address, Method::GET, path, &[]).await
}

/// Answers each request with 200 and passes its head on.
async fn control_port() -> (ControlPort, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut head).await.unwrap();
            }
            heads.send(String::from_utf8(head).unwrap()).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
        }
    });
    let token = "secret".to_owned();
    (ControlPort { address, token }, requests)
}

struct Shown {
    page: ComparisonPage,
    direct: Arc<DirectProxy>,
    controlled: mpsc::UnboundedReceiver<String>,
    _origin: Origin,
    _longhaul: DirectProxy,
}

async fn show() -> Shown {
    let content = Arc::new(Content::new(None).with_host(Site::built_in()));
    let origin = Origin::start(content, &TestAuthority::new().unwrap())
        .await
        .unwrap();
    let names = Names::new(vec![Override {
        name: Site::HOST.to_owned(),
        address: origin.http().to_string(),
    }]);
    let config = hop(Profile::named("lan-fast").unwrap());
    let direct = Arc::new(DirectProxy::start(config.clone(), names.clone()).await.unwrap());
    let longhaul = DirectProxy::start(config, names).await.unwrap();
    let way = |seconds, bytes| Way {
        time: Duration::from_secs(seconds),
        bytes: ByteCount::new(bytes),
        failed: 0,
    };
    let measured = Comparison {
        url: "http://a.test/<b>".to_owned(),
        direct: way(8, 182_000),
        longhaul: way(2, 61_000),
    };
    let contents = Contents {
        link: "lan-fast, emulated".to_owned(),
        direct_proxy: direct.address(),
        longhaul_proxy: longhaul.address(),
        measured: &measured,
    };
    let (control, controlled) = control_port().await;
    let page = ComparisonPage::start(&contents, Arc::clone(&direct), control)
        .await
        .unwrap();
    Shown {
        page,
        direct,
        controlled,
        _origin: origin,
        _longhaul: longhaul,
    }
}

/// The addresses of both views, from the page.
fn views(html: &str) -> Vec<SocketAddr> {
    let urls = html.split("data-view=\"http://").skip(1);
    urls.map(|rest| rest.split('/').next().unwrap().parse().unwrap())
        .collect()
}

#[tokio::test]
async fn the_page_shows_both_times_and_names_both_proxies() {
    let shown = show().await;
    let page = get(shown.page.address, "/").await;
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    assert_eq!(page.status, StatusCode::OK);
    assert!(!html.contains("{{"), "every field is filled: {html}");
    for text in [
        "8.0 s",
        "2.0 s",
        "182.0 kB",
        "Longhaul was 4.0 times as fast",
        "http://a.test/&lt;b&gt;",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    assert!(html.contains(&shown.direct.address().to_string()), "{html}");
    let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    let views = views(&html);
    assert_eq!(views.len(), 2);
    for view in views {
        assert!(policy.contains(&format!("http://{view}")), "{policy}");
    }
    for file in ["/page.css", "/page.js"] {
        assert_eq!(
            get(shown.page.address, file).await.status,
            StatusCode::OK,
            "{file}"
        );
    }
    assert_eq!(
        get(shown.page.address, "/other").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn views_deliver_the_site_through_their_proxies_without_storage() {
    let shown = show().await;
    let html = get(shown.page.address, "/").await.body;
    let views = views(std::str::from_utf8(&html).unwrap());
    for (view, crosses_direct) in [(views[0], true), (views[1], false)] {
        let before = shown.direct.received();
        let picture = get(view, "/img/ship.jpg").await;
        let Expectation::Answer { body: Some(body), .. } = Site::built_in().expect("/img/ship.jpg") else {
            panic!("the site has the picture");
        };
        assert_eq!(picture.body, body);
        assert_eq!(picture.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(picture.headers.get(header::ETAG), None);
        assert_eq!(shown.direct.received() > before, crosses_direct);
        assert_eq!(get(view, "/none").await.status, StatusCode::NOT_FOUND);
        let foreign = request(view, Method::GET, "/", &[("host", "evil.test")]).await;
        assert_eq!(foreign.status, StatusCode::FORBIDDEN);
        assert_eq!(
            request(view, Method::POST, "/", &[]).await.status,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }
}

#[tokio::test]
async fn a_comparison_begins_with_empty_caches_and_only_from_the_page() {
    let mut shown = show().await;
    let own = shown.page.address;
    let origin = format!("http://{own}");
    for fields in [
        &[("origin", "http://evil.test")][..],
        &[],
        &[("host", "evil.test")],
    ] {
        let refused = request(own, Method::POST, "/start", fields).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{fields:?}");
    }
    let started = request(own, Method::POST, "/start", &[("origin", &origin)]).await;
    assert_eq!(started.status, StatusCode::OK, "{:?}", started.body);
    let head = shown.controlled.recv().await.unwrap().to_ascii_lowercase();
    assert!(head.starts_with("post /forget?site=demo.test http/1.1"), "{head}");
    assert!(head.contains("authorization: bearer secret"), "{head}");
    assert!(shown.controlled.try_recv().is_err(), "once");
}
