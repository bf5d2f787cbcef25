//! Content codings, entity tags and ranges: the client's `Accept-Encoding` reaches the origin, and what the origin answers
//! to it reaches the client byte for byte, also from the caches and beside browsers.
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

use super::*;

/// What programs send as `Accept-Encoding`, and what they call themselves.
const PROGRAMS: [&[(&str, &str)]; 6] = [
    &[],
    &[("User-Agent", "curl/8.5.0"), ("Accept", "*/*")],
    &[("User-Agent", "Wget/1.21.4"), ("Accept-Encoding", "identity")],
    &[("Accept-Encoding", "gzip;q=1.0, deflate;q=0.6, identity;q=0.3")],
    &[("Accept-Encoding", "br;q=0, *")],
    &[
        ("User-Agent", "python-requests/2.31.0"),
        ("Accept-Encoding", "gzip, deflate"),
    ],
];
const BROWSER: [(&str, &str); 2] = [
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
    ("Accept-Encoding", "gzip, deflate"),
];

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(body).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

/// Answers with one of two representations, and with ranges of it.
fn origin(cache_control: &'static str) -> impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static {
    let plain = prose(40_000, 3);
    let coded = gzip(&plain);
    let twice = gzip(&coded);
    move |request: Kept<'_>| {
        let accepts_gzip = request
            .field("accept-encoding")
            .is_some_and(|value| value.contains("gzip"));
        let (coding, tag, body) = match request.path() {
            // As servers answer for `.tar.gz`, whatever the client accepts.
            "/file.tar.gz" | "/download?x-gzip" => (Some("x-gzip"), "\"file\"", &coded),
            "/gzip" => (Some("gzip"), "\"gzip\"", &coded),
            "/unknown" => (Some("x-unheard-of"), "\"unknown\"", &coded),
            "/several" => (Some("gzip, gzip"), "\"several\"", &twice),
            "/negotiated" if accepts_gzip => (Some("gzip"), "\"n-gzip\"", &coded),
            "/negotiated" => (None, "\"n\"", &plain),
            // A tag for both representations, as nginx and others send it by mistake.
            "/one-tag" if accepts_gzip => (Some("gzip"), "\"one\"", &coded),
            "/one-tag" => (None, "\"one\"", &plain),
            _ => (None, "\"plain\"", &plain),
        };
        let mut fields = format!(
            "Content-Type: {}\r\nETag: {tag}\r\nCache-Control: {cache_control}\r\nAccept-Ranges: bytes\r\nX-Own: a\r\n\
             Content-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            if request.path().contains("gz") {
                "application/x-gzip"
            } else {
                "text/plain"
            }
        );
        if let Some(coding) = coding {
            fields.push_str(&format!("Content-Encoding: {coding}\r\n"));
        }
        if ["/negotiated", "/one-tag"].contains(&request.path()) {
            fields.push_str("Vary: Accept-Encoding\r\n");
        }
        if request.field("if-none-match") == Some(tag) {
            return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
        }
        let same = request.field("if-range").is_none_or(|named| named == tag);
        let range = request.field("range").filter(|_| same).and_then(|range| {
            let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
            let (from, to) = (from.parse().ok()?, to.parse().unwrap_or(body.len() - 1));
            Some((from, to, body.get(from..=to)?))
        });
        let (status, body) = match range {
            Some((from, to, part)) => {
                fields.push_str(&format!("Content-Range: bytes {from}-{to}/{}\r\n", body.len()));
                ("206 Partial Content", part)
            }
            None => ("200 OK", &body[..]),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let is_head = request.head.starts_with("HEAD");
        [head.as_bytes(), if is_head { &[] } else { body }].concat()
    }
}

const PATHS: [&str; 8] = [
    "/file.tar.gz",
    "/download?x-gzip",
    "/gzip",
    "/unknown",
    "/several",
    "/negotiated",
    "/one-tag",
    "/plain",
];

async fn programs_get_what_the_origin_answers(cache_control: &'static str) -> Result<()> {
    let site = BothWays::start(origin(cache_control)).await?;
    for path in PATHS {
        // A browser's responses are in the caches before the programs ask.
        let decoded = site.through("GET", path, &BROWSER).await?;
        assert_eq!((decoded.status, decoded.ending), (200, Ending::Whole), "{path}");
        for program in PROGRAMS {
            let whole = site.compare("GET", path, program).await?;
            site.compare("HEAD", path, program).await?;
            let tag = whole.field("etag").context("a tag")?.to_owned();
            for condition in [
                &[("Range", "bytes=1000-")][..],
                &[("Range", "bytes=1000-1999"), ("If-Range", &tag)],
                &[("Range", "bytes=1000-"), ("If-Range", "\"other\"")],
                &[("If-None-Match", &tag)],
            ] {
                let fields = [program, condition].concat();
                let part = site.compare("GET", path, &fields).await?;
                if part.status == 206
                    && !part
                        .field("content-range")
                        .is_some_and(|range| range.contains("1999"))
                {
                    assert!(part.body == whole.body[1000..], "{path}: a resumed download fits");
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn programs_get_the_origins_own_codings_and_ranges() -> Result<()> {
    programs_get_what_the_origin_answers("no-store").await
}

#[tokio::test]
async fn programs_get_the_origins_own_codings_and_ranges_from_caches() -> Result<()> {
    programs_get_what_the_origin_answers("public, max-age=600").await
}

#[tokio::test]
async fn a_second_device_gets_its_own_coding_from_the_shared_cache() -> Result<()> {
    let site = BothWays::start(origin("public, max-age=600")).await?;
    let second = site.pair.second_agent("second").await?;
    for path in PATHS {
        for fields in [&BROWSER[..], &[]] {
            site.through("GET", path, fields).await?;
        }
        let text = request("GET", &format!("http://site.test{path}"), &[]);
        let shared = one(second.address(), "GET", &text).await?;
        let direct = site.direct("GET", path, &[]).await?;
        assert!(shared.body == direct.body, "{path}");
        assert_eq!(compared(&shared), compared(&direct), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn browsers_keep_compressed_files_and_get_other_bodies_decoded() -> Result<()> {
    let site = BothWays::start(origin("public, max-age=600")).await?;
    for path in ["/file.tar.gz", "/download?x-gzip"] {
        // Some browsers save the file as it is and others decode it: each does as it does directly.
        site.compare("GET", path, &BROWSER).await?;
        let whole = site.direct("GET", path, &[]).await?;
        let rest = [
            &BROWSER[..],
            &[("Range", "bytes=1000-"), ("If-Range", "\"file\"")],
        ]
        .concat();
        let part = site.compare("GET", path, &rest).await?;
        assert!(part.body == whole.body[1000..], "{path}");
    }
    let plain = site.direct("GET", "/plain", &[]).await?;
    for path in ["/negotiated", "/one-tag"] {
        let decoded = site.through("GET", path, &BROWSER).await?;
        assert_eq!(decoded.field("content-encoding"), None, "{path}");
        assert!(decoded.body == plain.body, "{path}");
        let tag = decoded.field("etag").context("a tag")?.to_owned();
        // The browser holds decoded bytes: it gets the rest of these, or all of them.
        let rest = [&BROWSER[..], &[("Range", "bytes=1000-"), ("If-Range", &tag)]].concat();
        let part = site.through("GET", path, &rest).await?;
        let expected = if part.status == 206 {
            &plain.body[1000..]
        } else {
            &plain.body[..]
        };
        assert!(part.body == expected, "{path}: {part:?}");
    }
    Ok(())
}
