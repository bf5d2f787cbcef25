//! Bodies of a page's objects: content codings, framings, truncated bodies, and decompression bombs.
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use anyhow::Result;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use longhaul_tests::{
    client::{Ending, RawClient, get},
    raw_origin::RawOrigin,
};

use super::{body, page, peak_memory, visitor::Visitor};
use crate::{
    content::prose,
    pair::{Pair, Setup},
};

const PAGE: &str = "http://site.test/";
/// A field of browsers, which take decoded bodies.
const CODINGS: (&str, &str) = ("Accept-Encoding", "gzip, deflate");
/// Names of objects; a name determines content coding and framing.
const OBJECTS: &[&str] = &[
    "gzip.css",
    "gzip.js",
    "zlib.js",
    "br.css",
    "br.js",
    "zstd.js",
    "twice.css",
    "plain.gif",
    "gzip-chunked.css",
    "br-chunked.js",
    "plain-chunked.gif",
    "plain-closed.js",
    "gzip-closed.css",
    "plain-empty.js",
    "gzip-empty.css",
];

fn coded(name: &str, body: &[u8]) -> (Vec<u8>, &'static str) {
    let gzip = |body: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(body).expect("writing to memory succeeds");
        encoder.finish().expect("writing to memory succeeds")
    };
    let brotli = |body: &[u8]| {
        let config = mbrotli::EncoderConfig::default().with_quality(mbrotli::Quality::Q5);
        let mut coder = mbrotli::Compressor::new(config).expect("a quality");
        coder.compress(body).expect("writing to memory succeeds")
    };
    match name.split(['-', '.']).next() {
        Some("gzip") => (gzip(body), "gzip"),
        Some("zlib") => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
            encoder.write_all(body).expect("writing to memory succeeds");
            (encoder.finish().expect("writing to memory succeeds"), "deflate")
        }
        Some("br") => (brotli(body), "br"),
        Some("zstd") => (
            zstd::bulk::compress(body, 3).expect("writing to memory succeeds"),
            "zstd",
        ),
        Some("twice") => (brotli(&gzip(body)), "gzip, br"),
        _ => (body.to_vec(), "identity"),
    }
}

/// A response with an encoded body and the framing that the name determines.
fn response(name: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let (coded, coding) = coded(name, body);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {coding}\r\nCache-Control: max-age=600\r\nETag: \"{name}\"\r\n"
    );
    let mut bytes = head.into_bytes();
    if name.contains("chunked") {
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in coded.chunks(3001) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else if name.contains("closed") {
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&coded);
    } else {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", coded.len()).as_bytes());
        bytes.extend_from_slice(&coded);
    }
    bytes
}

fn expected(name: &str) -> Vec<u8> {
    let seed = name.bytes().map(u64::from).sum();
    let length = if name.contains("empty") { 0 } else { 40_000 };
    prose(length, seed)
}

async fn pair_for(origin: &RawOrigin) -> Result<Pair> {
    Pair::start(Setup::resolving(&[("site.test", origin.address())])).await
}

#[tokio::test]
async fn objects_of_every_coding_and_framing_equal_the_origins_objects() -> Result<()> {
    for page_name in ["gzip", "br-chunked", "zstd", "zlib-closed", "plain"] {
        let origin = RawOrigin::start(move |path| match path.trim_start_matches('/') {
            "" => response(page_name, "text/html", page(OBJECTS).as_bytes()),
            name => response(name, "text/plain", &expected(name)),
        })
        .await?;
        let pair = pair_for(&origin).await?;
        let urls: Vec<String> = OBJECTS.iter().map(|name| format!("{PAGE}{name}")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        for round in 0..2 {
            let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
            assert!(
                body(&visit.page) == page(OBJECTS).as_bytes(),
                "{page_name}, round {round}"
            );
            for (name, url) in OBJECTS.iter().zip(&urls) {
                let object = visit.object(url);
                assert!(
                    body(object) == expected(name),
                    "{page_name}/{name}, round {round}: {} bytes",
                    object.body.len()
                );
                assert!(matches!(
                    object.field("content-encoding"),
                    None | Some("identity")
                ));
            }
        }
    }
    Ok(())
}

/// A body that is truncated at the origin is truncated at the browser, and no later load uses it.
#[tokio::test]
async fn truncated_bodies_are_not_cached() -> Result<()> {
    const NAMES: &[&str] = &[
        "plain.js",
        "gzip.css",
        "br.js",
        "plain-chunked.gif",
        "gzip-chunked.css",
    ];
    let broken = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&broken);
    let origin = RawOrigin::start(move |path| {
        let (name, body) = match path.trim_start_matches('/') {
            "" => ("gzip-chunked", page(NAMES).into_bytes()),
            "cut" => (
                "plain-chunked",
                [page(NAMES).into_bytes(), prose(50_000, 9)].concat(),
            ),
            name => (name, expected(name)),
        };
        let mut bytes = response(name, "text/html", &body);
        if now.load(Relaxed) && path != "/" {
            // Cut where both the coding and the length reveal the truncation.
            bytes.truncate(bytes.len() * 2 / 3);
        }
        bytes
    })
    .await?;
    let pair = pair_for(&origin).await?;
    for (page_url, cut) in [("http://site.test/", false), ("http://site.test/cut", true)] {
        let loaded = navigate(&pair, page_url).await?;
        let expected = (!cut).then(|| page(NAMES).into_bytes());
        assert!(
            loaded == expected,
            "{page_url}: {:?} bytes",
            loaded.map(|bytes| bytes.len())
        );
        for name in NAMES {
            let found = request_object(&pair, page_url, name).await?;
            assert!(
                found.is_none(),
                "{name} of {page_url}: the truncated body ended cleanly"
            );
        }
    }
    broken.store(false, Relaxed);
    for round in 0..2 {
        let loaded = navigate(&pair, "http://site.test/cut").await?;
        assert!(
            loaded == Some([page(NAMES).into_bytes(), prose(50_000, 9)].concat()),
            "round {round}: {:?} bytes",
            loaded.map(|bytes| bytes.len())
        );
        for name in NAMES {
            let found = request_object(&pair, "http://site.test/cut", name).await?;
            assert!(
                found == Some(expected(name)),
                "round {round}, {name}: not complete after the origin sends it completely"
            );
        }
    }
    Ok(())
}

async fn navigate(pair: &Pair, url: &str) -> Result<Option<Vec<u8>>> {
    complete_body(pair, get(url, &[CODINGS, ("Upgrade-Insecure-Requests", "1")])).await
}

async fn request_object(pair: &Pair, page: &str, name: &str) -> Result<Option<Vec<u8>>> {
    let url = format!("{PAGE}{name}");
    complete_body(pair, get(&url, &[CODINGS, ("Accept", "*/*"), ("Referer", page)])).await
}

/// The body if it ended cleanly; `None` if it was truncated or refused.
async fn complete_body(pair: &Pair, request: String) -> Result<Option<Vec<u8>>> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send(request).await?;
    let Ok(response) = client.response().await else {
        return Ok(None);
    };
    let whole = response.status == 200 && response.ending == Ending::Whole;
    Ok(whole.then_some(response.body))
}

/// A decompression bomb of 1 GB in 1 MB, as a page and as its style sheet.
#[tokio::test]
async fn decompression_bombs_do_not_exhaust_memory() -> Result<()> {
    const MAX_MEMORY: u64 = 700 << 20;
    let member = coded("gzip", &vec![0; 16 << 20]).0;
    let bomb = Arc::new(member.repeat(64));
    let origin = RawOrigin::start(move |path| match path {
        "/" | "/after" => response("plain", "text/html", page(&["bomb.css", "good.js"]).as_bytes()),
        "/good.js" => response("good.js", "text/javascript", &expected("good.js")),
        _ => {
            let kind = if path == "/bomb.html" { "text/html" } else { "text/css" };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                bomb.len()
            );
            [head.as_bytes(), &bomb].concat()
        }
    })
    .await?;
    let pair = pair_for(&origin).await?;
    for url in ["http://site.test/bomb.css", "http://site.test/bomb.html"] {
        Visitor::new(pair.proxy()).page(PAGE).await?;
        let mut client = RawClient::connect(pair.proxy()).await?;
        let accept = if url.ends_with("html") {
            "text/html"
        } else {
            "text/css"
        };
        client
            .send(get(url, &[CODINGS, ("Accept", accept), ("Referer", PAGE)]))
            .await?;
        let head = client.head().await?;
        let mut read = 0;
        // Stop reading at a limit, as a browser would.
        while read < 80 << 20 {
            match client.read().await {
                Ok(bytes) if !bytes.is_empty() => read += bytes.len(),
                _ => break,
            }
        }
        println!("{url}: status {}, {read} bytes", head.status);
        drop(client);
        let good = Visitor::new(pair.proxy())
            .visit("http://site.test/after", &["http://site.test/good.js"])
            .await?;
        assert!(body(good.object("http://site.test/good.js")) == expected("good.js"));
        for (name, running) in [("gateway", pair.gateway()), ("agent", pair.agent())] {
            let peak = peak_memory(running.pid()).unwrap_or(0);
            println!("{name}: at most {} MB", peak >> 20);
            assert!(peak < MAX_MEMORY, "{name} used {} MB for {url}", peak >> 20);
        }
    }
    Ok(())
}
