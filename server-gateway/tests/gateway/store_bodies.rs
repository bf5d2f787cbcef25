//! Bodies in the gateway's cache: decoded, complete, shared while they arrive, and not sent to agents that
//! hold them.
use std::io::Write as _;

use http::Request;
use hyper::body::Incoming;
use longhaul_codec::DecodeError;

use crate::{
    agent::{BROWSER, BodyEnd},
    origin::{full, serve, serve_tcp, text},
    store::{Log, reply, setup},
};

pub(super) const FRESH: (&str, &str) = ("cache-control", "public, max-age=600");

pub(super) fn coded(coding: &str, body: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            coder.write_all(body).unwrap();
            coder.finish().unwrap()
        }
        "deflate" => {
            let mut coder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            coder.write_all(body).unwrap();
            coder.finish().unwrap()
        }
        "br" => {
            let mut coder = mbrotli::Compressor::new(mbrotli::EncoderConfig::default()).unwrap();
            coder.compress(body).unwrap()
        }
        "zstd" => zstd::bulk::compress(body, 3).unwrap(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn content_codings_are_decoded_before_storage() {
    let (_gateway, mut agent) = setup().await;
    let page = text(300_000);
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let (log, body) = (Log::default(), coded(coding, &page));
        let counted = log.clone();
        let port = serve(move |request: Request<Incoming>| {
            counted.add(request.headers());
            let body = body.clone();
            async move {
                let fields = [FRESH, ("content-encoding", coding), ("content-type", "text/html")];
                reply(200, &fields, full(body))
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        for accepts in ["gzip, deflate, br", "deflate, gzip"] {
            let response = agent.get(&url, &[("accept-encoding", accepts)]).await;
            assert_eq!(response.end, BodyEnd::Complete, "{coding}");
            assert!(response.body == page, "{coding}");
            assert_eq!(response.field("content-encoding"), None);
        }
        assert_eq!(log.count(), 1, "{coding}");
        let browser = [("accept-encoding", "gzip, deflate")];
        assert_eq!(
            agent.get(&url, &browser).await.field("content-length"),
            Some("300000")
        );
        let own = agent.get(&url, &[]).await;
        assert_eq!(own.field("content-encoding"), Some(coding));
        assert!(own.body == coded(coding, &page), "{coding}");
    }
}

#[tokio::test]
async fn no_transform_bodies_are_stored_encoded() {
    let (_gateway, mut agent) = setup().await;
    let (page, log) = (text(5000), Log::default());
    let (body, counted) = (coded("gzip", &page), log.clone());
    let origin = body.clone();
    let port = serve(move |request: Request<Incoming>| {
        counted.add(request.headers());
        let body = origin.clone();
        async move {
            let fields = [
                ("cache-control", "max-age=600, no-transform"),
                ("content-encoding", "gzip"),
            ];
            reply(200, &fields, full(body))
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    let gzip = [("accept-encoding", "gzip, deflate")];
    for _ in 0..2 {
        let response = agent.get(&url, &gzip).await;
        assert_eq!(
            (response.field("content-encoding"), response.body == body),
            (Some("gzip"), true)
        );
    }
    assert_eq!(log.count(), 1);
    let own = agent.get(&url, &[]).await;
    assert_eq!(
        (own.field("content-encoding"), own.body == body),
        (Some("gzip"), true)
    );
    assert_eq!(log.count(), 2, "a client without codings gets its own response");
}

#[tokio::test]
async fn truncated_bodies_are_not_stored() {
    let (_gateway, mut agent) = setup().await;
    let page = text(200_000);
    let whole = coded("gzip", &page);
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    let head = |length: usize, more: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncache-control: max-age=600\r\ncontent-length: {length}\r\n{more}connection: close\r\n\r\n"
        )
    };
    let gzip = "content-encoding: gzip\r\n";
    let bad = [
        [head(page.len(), "").into_bytes(), page[..100_000].to_vec()].concat(),
        [head(whole.len(), gzip).into_bytes(), whole[..middle].to_vec()].concat(),
        [head(middle, gzip).into_bytes(), whole[..middle].to_vec()].concat(),
        [head(whole.len(), gzip).into_bytes(), damaged].concat(),
    ];
    for (number, bad) in bad.into_iter().enumerate() {
        let log = Log::default();
        let (counted, good) = (
            log.clone(),
            [head(page.len(), "").into_bytes(), page.clone()].concat(),
        );
        let port = serve_tcp(move |mut connection| {
            let first = counted.add(&http::HeaderMap::new()) == 1;
            let answer = if first { bad.clone() } else { good.clone() };
            async move {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let mut request = [0; 4096];
                let _count = connection.read(&mut request).await.unwrap();
                let _gone = connection.write_all(&answer).await;
            }
        })
        .await;
        let url = format!("http://a.test:{port}/");
        let broken = agent.get(&url, &[BROWSER]).await;
        // The last two messages are complete: browsers show what their codings contain.
        assert!(
            matches!(broken.end, BodyEnd::Broken(DecodeError::Truncated { .. })) || number >= 2,
            "{:?}",
            broken.end
        );
        let response = agent.get(&url, &[BROWSER]).await;
        assert_eq!((response.end, response.body == page), (BodyEnd::Complete, true));
        assert_eq!(log.count(), 2);
    }
}

#[tokio::test]
async fn bodies_ended_by_connection_close_are_not_stored() {
    let (_gateway, mut agent) = setup().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve_tcp(move |mut connection| {
        counted.add(&http::HeaderMap::new());
        async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut request = [0; 4096];
            let _count = connection.read(&mut request).await.unwrap();
            let answer = b"HTTP/1.0 200 OK\r\ncache-control: max-age=600\r\n\r\nuntil close";
            connection.write_all(answer).await.unwrap();
        }
    })
    .await;
    let url = format!("http://a.test:{port}/");
    for _ in 0..2 {
        assert_eq!(agent.get(&url, &[]).await.body, b"until close");
    }
    assert_eq!(log.count(), 2);
}
