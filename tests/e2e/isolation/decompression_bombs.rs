//! Decompression bombs: compressed bodies of origins that decode to far more bytes.
use std::{io::Write as _, sync::Arc};

use anyhow::{Context, Result};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use longhaul_tests::{
    client::{Ending, RawClient, get},
    raw_origin::RawOrigin,
};

use crate::{
    content::prose,
    page_loads::peak_memory,
    pair::{Pair, Setup},
};

/// Decoded size of a bomb.
const DECODED: usize = 256 << 20;
/// Maximum growth of the programs' memory: 16 MiB are decoded whatever the ratio, in two copies, one of which
/// is encoded again, and a document is parsed.
const MAX_GROWTH: u64 = 160 << 20;
/// The largest window that the encoder supports, 128 MiB; RFC 9659 allows 8 MiB.
const LONG_WINDOW: u32 = 27;

const KINDS: [&str; 8] = [
    "br",
    "zstd",
    "gzip",
    "deflate",
    "gzip, br",
    "br, br, zstd",
    "zstd-window",
    "br-window",
];

fn zeros(mut into: impl std::io::Write) -> std::io::Result<()> {
    let piece = vec![0; 1 << 20];
    for _ in 0..DECODED >> 20 {
        into.write_all(&piece)?;
    }
    Ok(())
}

fn brotli(body: &[u8]) -> Vec<u8> {
    let config = mbrotli::EncoderConfig::default().with_quality(mbrotli::Quality::Q2);
    let mut coder = mbrotli::Compressor::new(config).expect("a quality");
    coder.compress(body).expect("writing to memory succeeds")
}

fn zstd(window: u32, fill: impl FnOnce(&mut zstd::stream::write::Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("a level");
    encoder.window_log(window).expect("a window");
    fill(&mut encoder);
    encoder.finish().expect("writing to memory succeeds")
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
    encoder.write_all(body).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

fn bomb(kind: &str) -> (&'static str, Vec<u8>) {
    let whole = || vec![0; DECODED];
    match kind {
        "br" => ("br", brotli(&whole())),
        "zstd" => (
            "zstd",
            zstd(20, |encoder| zeros(encoder).expect("writing to memory succeeds")),
        ),
        "gzip" => ("gzip", gzip(&whole())),
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(1));
            zeros(&mut encoder).expect("writing to memory succeeds");
            ("deflate", encoder.finish().expect("writing to memory succeeds"))
        }
        "gzip, br" => ("gzip, br", brotli(&gzip(&whole()))),
        "br, br, zstd" => {
            let inner = brotli(&brotli(&whole()));
            (
                "br, br, zstd",
                zstd(20, |encoder| {
                    encoder.write_all(&inner).expect("writing to memory succeeds")
                }),
            )
        }
        // Ratio and length are within the limits, but the window is not.
        "zstd-window" => (
            "zstd",
            zstd(LONG_WINDOW, |encoder| {
                zeros(encoder).expect("writing to memory succeeds")
            }),
        ),
        // The first bytes of a large-window stream (draft-vandevenne-shared-brotli-format): a window of 2^30
        // bytes.
        _ => (
            "br",
            [&[0x11, 0x1e, 0x00, 0x00, 0x60][..], &prose(4000, 3)].concat(),
        ),
    }
}

fn response(kind: &str, coding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let coding = coding.map_or_else(String::new, |coding| format!("Content-Encoding: {coding}\r\n"));
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{coding}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A page whose style sheet is a bomb and whose script is harmless.
async fn origin() -> Result<RawOrigin> {
    let bombs: Arc<Vec<_>> = Arc::new(KINDS.iter().map(|kind| bomb(kind)).collect());
    for (kind, (_, bytes)) in KINDS.iter().zip(bombs.iter()) {
        println!("{kind}: {} bytes", bytes.len());
    }
    RawOrigin::start(move |path| {
        let mut parts = path.trim_start_matches('/').split('/');
        let number = parts.next().and_then(|number| number.parse::<usize>().ok());
        match (number.and_then(|number| bombs.get(number)), parts.next()) {
            (Some((coding, bytes)), Some("bomb.css")) => response("text/css", Some(coding), bytes),
            (Some((coding, bytes)), Some("bomb.html")) => response("text/html", Some(coding), bytes),
            (Some(_), None | Some("")) => response(
                "text/html",
                None,
                b"<!doctype html><link rel=stylesheet href=bomb.css><script src=good.js></script>",
            ),
            _ => response("text/javascript", None, &prose(40_000, 5)),
        }
    })
    .await
}

/// Status, bytes and ending of a browser's response; `None` without a response.
async fn fetch_outcome(
    pair: &Pair,
    url: &str,
    accept: &str,
    referer: &str,
) -> Result<Option<(u16, Vec<u8>, Ending)>> {
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(get(
            url,
            &[
                ("Accept", accept),
                ("Accept-Encoding", "gzip, deflate, br, zstd"),
                ("Referer", referer),
            ],
        ))
        .await?;
    Ok(client
        .response()
        .await
        .ok()
        .map(|response| (response.status, response.body, response.ending)))
}

fn assert_not_complete(what: &str, answer: Option<(u16, Vec<u8>, Ending)>) {
    let Some((status, body, ending)) = answer else {
        println!("{what}: no response");
        return;
    };
    println!("{what}: {status}, {} bytes, {ending:?}", body.len());
    assert!(
        status >= 500 || ending == Ending::Truncated,
        "{what}: {status} and a clean end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_of_every_coding_are_truncated() -> Result<()> {
    let origin = origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    let page = "text/html,*/*;q=0.8";
    // Memory of both programs after a harmless request.
    fetch_outcome(&pair, "http://site.test/good", page, "").await?;
    let held =
        |pair: &Pair| [pair.gateway(), pair.agent()].map(|running| peak_memory(running.pid()).unwrap_or(0));
    let before = held(&pair);
    for (number, kind) in KINDS.iter().enumerate() {
        let url = |name: &str| format!("http://site.test/{number}/{name}");
        assert_not_complete(
            &format!("{kind} as page"),
            fetch_outcome(&pair, &url("bomb.html"), page, "").await?,
        );
        assert_not_complete(
            &format!("{kind} as style sheet"),
            fetch_outcome(&pair, &url("bomb.css"), "text/css,*/*;q=0.1", &url("other")).await?,
        );
        // The page load fetches the script.
        let (status, _, ending) = fetch_outcome(&pair, &url(""), page, "")
            .await?
            .context("no response for the page")?;
        assert_eq!((status, ending), (200, Ending::Whole), "{kind}");
        let pushed = fetch_outcome(&pair, &url("bomb.css"), "text/css,*/*;q=0.1", &url("")).await?;
        assert_not_complete(&format!("{kind} as promised style sheet"), pushed);
        let (status, body, ending) = fetch_outcome(&pair, &url("good.js"), "*/*", &url(""))
            .await?
            .context("no response for the script")?;
        assert_eq!((status, ending), (200, Ending::Whole), "{kind}");
        assert!(
            body == prose(40_000, 5),
            "{kind}: the harmless script of the page differs"
        );
        let now = held(&pair);
        println!(
            "{kind}: gateway at most {} MB, agent {} MB",
            now[0] >> 20,
            now[1] >> 20
        );
        for (name, (now, before)) in ["gateway", "agent"].iter().zip(now.into_iter().zip(before)) {
            assert!(
                now < before + MAX_GROWTH,
                "{name} used {} MB of {kind}",
                now >> 20
            );
        }
    }
    Ok(())
}

/// In direct fallback the agent decodes nothing: the browser receives the encoded bomb.
#[tokio::test(flavor = "multi_thread")]
async fn direct_fallback_forwards_bombs_undecoded() -> Result<()> {
    let origin = origin().await?;
    let mut setup = Setup::resolving(&[]);
    setup.agent_arguments = vec!["--fallback-after".to_owned(), "100ms".to_owned()];
    let mut pair = Pair::start(setup).await?;
    pair.kill_gateway().await?;
    let before = peak_memory(pair.agent().pid()).unwrap_or(0);
    for (number, kind) in KINDS.iter().enumerate() {
        let url = format!("http://{}/{number}/bomb.css", origin.address());
        if let Some((status, body, ending)) = fetch_outcome(&pair, &url, "text/css,*/*;q=0.1", "").await? {
            println!(
                "{kind}, direct fallback: {status}, {} bytes, {ending:?}",
                body.len()
            );
            assert!(body.len() < 8 << 20, "{kind} was decoded: {} bytes", body.len());
        }
        let now = peak_memory(pair.agent().pid()).unwrap_or(0);
        assert!(
            now < before + (32 << 20),
            "the agent used {} MB of {kind}",
            now >> 20
        );
    }
    Ok(())
}
