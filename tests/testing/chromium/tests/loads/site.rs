//! A small site on loopback: two hosts, cacheable, compressed, redirected, missing, broken and endless objects.
use std::{collections::BTreeMap, convert::Infallible, io::Write, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinHandle};

/// A picture of 320 x 240 in one colour.
pub(crate) const PICTURE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="320" height="240"><rect width="320" height="240" fill="#2a6"/></svg>"##;
/// An error page.
pub(crate) const NOT_HERE: &str = "<!doctype html><h1>Not here</h1>";
/// Number of pictures on the page in addition to the special ones.
pub(crate) const PICTURES: usize = 12;
/// Content of the style sheet, repeated so that compression reduces it.
const STYLE: &str = "h1 { color: #135; font-size: 48px } ";
const STYLE_REPEATS: usize = 400;
const SCRIPT: &str = "document.getElementById('said').textContent = 'said by the script'; fetch('/never');";

/// A running site; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Site {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<(String, SocketAddr)>>>,
    task: JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::task::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::task::spawn(async move {
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let host = request.headers().get(header::HOST).map(|host| host.to_str());
                        let host = host.and_then(Result::ok).unwrap_or_default();
                        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
                        let asked = format!("{host}{path}");
                        log.lock().push((asked, peer));
                        async move { Ok::<_, Infallible>(answer(&request).await) }
                    });
                    // The browser may close the connection at any time.
                    let _ended = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, seen, task }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all requested URLs, host first, with the client's address.
    pub(crate) fn seen(&self) -> Vec<(String, SocketAddr)> {
        self.seen.lock().clone()
    }

    /// Returns the number of connections by host.
    pub(crate) fn connections(&self) -> BTreeMap<String, usize> {
        let mut peers = BTreeMap::new();
        for (asked, peer) in self.seen() {
            let host = asked.split('/').next().unwrap_or_default().to_owned();
            peers
                .entry(host)
                .or_insert_with(std::collections::BTreeSet::new)
                .insert(peer);
        }
        peers
            .into_iter()
            .map(|(host, peers)| (host, peers.len()))
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn style() -> String {
    STYLE.repeat(STYLE_REPEATS)
}

fn page() -> String {
    let pictures: String = (0..PICTURES)
        .map(|n| format!("<img src=/picture-{n}.svg width=80 height=60>"))
        .collect();
    format!(
        "<!doctype html><title>Depot</title><link rel=stylesheet href=style.css><link rel=icon href=data:,>\
         <h1>Depot</h1><p id=said>not said</p>{pictures}<img src=old.svg><img src=missing.svg><img src=broken.svg>\
         <img src=http://img.test/elsewhere.svg><img src=http://img.test/missing.svg><img src=http://gone.test/x.svg>\
         <img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='><script src=script.js></script>"
    )
}

fn gzip(text: &str) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory").into()
}

fn whole(body: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, std::io::Error> {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

async fn answer(request: &Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, std::io::Error>> {
    let response = Response::builder();
    let path = request.uri().path();
    let built = match path {
        "/" => response
            .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
            .body(whole(page())),
        "/style.css" => response
            .header(header::CONTENT_TYPE, "text/css")
            .header(header::CONTENT_ENCODING, "gzip")
            .header(header::CACHE_CONTROL, "max-age=3600")
            .body(whole(gzip(&style()))),
        "/script.js" => response
            .header(header::CONTENT_TYPE, "text/javascript")
            .body(whole(SCRIPT)),
        "/old.svg" => response
            .status(302)
            .header(header::LOCATION, "/new.svg")
            .body(whole("")),
        "/missing.svg" => response
            .status(404)
            .header(header::CONTENT_TYPE, "text/html")
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
            .body(whole(NOT_HERE)),
        "/broken.svg" => {
            let body = StreamBody::new(futures_util::stream::unfold(0, |step| async move {
                // Between the two chunks the server must send the first one.
                tokio::task::yield_now().await;
                let frame = match step {
                    0 => Ok(Frame::data(Bytes::from_static(b"<svg"))),
                    _ => Err(std::io::Error::other("broken on purpose")),
                };
                Some((frame, step + 1))
            }));
            response
                .header(header::CONTENT_TYPE, "image/svg+xml")
                .header(header::CONTENT_LENGTH, 1000)
                .body(body.boxed_unsync())
        }
        "/never" => std::future::pending().await,
        // The remaining paths are for a browser that uses the site as its proxy.
        "/mixed" => {
            let body = "<!doctype html><img src=http://unknown.test/dns.svg><img src=http://reset.test/reset.svg>\
                        <img src=https://secure.test/x.svg>";
            response
                .header(header::CONTENT_TYPE, "text/html")
                .body(whole(body))
        }
        "/dns.svg" => response
            .status(502)
            .header("proxy-status", "proxy.test; error=dns_error; rcode=NXDOMAIN")
            .body(whole("")),
        "/reset.svg" => response
            .status(502)
            .header("proxy-status", "proxy.test; error=connection_terminated")
            .body(whole("")),
        _ if request.method() == Method::CONNECT => response.status(502).body(whole("")),
        "/alert" => {
            let body =
                "<!doctype html><script>alert('first'); onload = () => confirm('second')</script><p>silent";
            response
                .header(header::CONTENT_TYPE, "text/html")
                .body(whole(body))
        }
        "/timed" => {
            let body = "<!doctype html><img src=timed.svg><p>waits<script>onload = () => setTimeout(() => {
                const times = performance.getEntriesByType('navigation')[0];
                document.body.textContent = times.loadEventStart + ' ' + times.loadEventEnd;
            })</script>";
            response
                .header(header::CONTENT_TYPE, "text/html")
                .body(whole(body))
        }
        "/moving" => {
            // An endless animation, a clock, random colours, and a change after the load event.
            let body = "<!doctype html><style>@keyframes go { to { margin-left: 300px } } #a { animation: go 2s infinite; \
                        width: 90px; height: 90px; background: #c30 }</style><div id=a></div><p id=clock></p><p id=late></p>\
                        <script>const random = () => Math.floor(Math.random() * 256);\
                        clock.textContent = new Date().toISOString().slice(0, 16) + ' ' + [random(), random(), random()];\
                        clock.style.color = `rgb(${random()},${random()},${random()})`;\
                        onload = () => setTimeout(() => fetch('/picture-0.svg').then(answer => answer.text())\
                        .then(text => { late.textContent = 'late ' + text.length + ' ' + (Date() === new Date().toString()) }),\
                        200)</script>";
            response
                .header(header::CONTENT_TYPE, "text/html")
                .body(whole(body))
        }
        "/endless" => {
            let body = "<!doctype html><img src=never>";
            response
                .header(header::CONTENT_TYPE, "text/html")
                .body(whole(body))
        }
        _ => response
            .header(header::CONTENT_TYPE, "image/svg+xml")
            .header(header::CACHE_CONTROL, "max-age=3600")
            .body(whole(PICTURE)),
    };
    built.expect("a valid response")
}
