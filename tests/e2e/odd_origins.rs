//! Origins that break the rules of HTTP/1.1 as real servers do: what browsers load from them loads through agent and
//! gateway, and what the browser gets is well formed.
use anyhow::Result;
use longhaul_tests::{
    client::{Ending, RawClient, get},
    raw_origin::RawOrigin,
};

use crate::pair::{Pair, Setup};

/// Answers by path, with the status and body that browsers see.
const ANSWERS: [(&str, &str, u16, &str); 16] = [
    (
        "/line-without-colon",
        "HTTP/1.1 200 OK\r\n<!DOCTYPE html>\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/warning",
        "HTTP/1.1 200 OK\r\nPHP Warning: x in y\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/space-in-name",
        "HTTP/1.1 200 OK\r\nX Y: 1\r\nX-Last : 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/control",
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=\u{1}\r\nX: \u{7f}\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/line-feeds",
        "HTTP/1.1 200 OK\nX-Last: 1\nContent-Length: 2\n\nok",
        200,
        "ok",
    ),
    (
        "/version",
        "HTTP/1.2 200  \u{e9}\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/no-version",
        "HTTP 404 Gone\r\nX-Last: 1\r\n\r\nlost",
        404,
        "lost",
    ),
    (
        "/no-number",
        "HTTP/1.1 fine\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/robot",
        "HTTP/1.1 999 No\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nno",
        999,
        "no",
    ),
    (
        "/600",
        "HTTP/1.1 600 No\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nno",
        600,
        "no",
    ),
    (
        "/lengths",
        "HTTP/1.1 200 OK\r\nX-Last: 1\r\nContent-Length: 2, 2\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/negative",
        "HTTP/1.1 200 OK\r\nX-Last: 1\r\nContent-Length: -1\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/identity",
        "HTTP/1.1 200 OK\r\nX-Last: 1\r\nTransfer-Encoding: identity\r\n\r\nok",
        200,
        "ok",
    ),
    (
        "/chunks",
        "HTTP/1.1 200 OK\r\nX-Last: 1\r\nTransfer-Encoding: chunked\r\n\r\n2 ;x\nok\n0\n\n",
        200,
        "ok",
    ),
    (
        "/early",
        "HTTP/1.1 101 X\r\n\r\nHTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\r\nX-Last: 1\r\nContent-Length: 2\r\n\r\nok",
        200,
        "ok",
    ),
    ("/head-alone", "HTTP/1.1 403 No\r\nX-Last: 1\r\n", 403, ""),
];

#[tokio::test]
async fn what_browsers_load_loads() -> Result<()> {
    let origin = RawOrigin::start(|path| {
        let answer = ANSWERS.iter().find(|(asked, ..)| *asked == path);
        answer.map_or_else(Vec::new, |(_, answer, ..)| answer.as_bytes().to_vec())
    })
    .await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    // One connection: a response that is not well formed would be taken for a part of the next one.
    let mut client = RawClient::connect(pair.proxy()).await?;
    for (path, answer, status, body) in ANSWERS {
        client.send(get(&format!("http://site.test{path}"), &[])).await?;
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (status, body),
            "{path}: {answer:?}"
        );
        assert_eq!(response.ending, Ending::Whole, "{path}");
        assert_eq!(
            response.field("x-last"),
            Some("1"),
            "{path}: {:?}",
            response.fields
        );
    }
    let headless = pair.get("http://site.test/headless").await?;
    assert_eq!(headless.status, 502, "an empty response is none");
    Ok(())
}
