//! Cache poisoning between devices: requests of one device must not change responses for another.
use anyhow::Result;
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    client::{RawResponse, ask, get},
    origin::{AnswerBody, Origin},
};

use crate::{
    content::whole,
    pair::{Pair, Setup},
};

const SITE: &str = "http://site.test";
/// A value that no browser sends.
const POISON: &str = "<script>poison()</script>";
/// Fields of a browser's request for a script of a page.
const BROWSER: &[(&str, &str)] = &[
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) test"),
    ("Accept", "*/*"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
    ("Referer", "http://site.test/"),
];
/// Request fields that an origin may repeat in its response, each with the poison. An audit found that the
/// first nine were shared.
const FIELDS: &[&str] = &[
    "User-Agent",
    "Referer",
    "Accept",
    "Accept-Language",
    "Via",
    "DNT",
    "Sec-GPC",
    "Sec-Fetch-Site",
    "Origin",
    "Sec-Fetch-Dest",
    "Sec-Fetch-Mode",
    "Sec-Fetch-User",
    "Sec-CH-UA",
    "Sec-CH-UA-Platform",
    "Sec-Purpose",
    "Purpose",
    "Accept-Charset",
    "Accept-Encoding",
    "Save-Data",
    "Priority",
    "DPR",
    "Width",
    "Viewport-Width",
    "Device-Memory",
    "Downlink",
    "ECT",
    "RTT",
    "Upgrade-Insecure-Requests",
    "Early-Data",
    "From",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Original-URL",
    "X-Made-Up",
    "Cache-Control",
    "Pragma",
    "If-None-Match",
    "If-Modified-Since",
    "Range",
    "If-Range",
    "TE",
    "Connection",
    "Expect",
    "Cookie",
    "Authorization",
    "Content-Type",
];
/// `Cache-Control` of such an origin.
const CACHING: &[&str] = &["max-age=600", "public, max-age=600", "s-maxage=600, max-age=600"];

/// An origin that repeats the whole request in the body and in a field of its response.
fn repeat_request(request: &Request<Incoming>) -> Response<AnswerBody> {
    let caching = request.uri().path().trim_start_matches('/');
    let caching = caching.split('/').next().and_then(|number| number.parse().ok());
    let caching = caching.and_then(|number: usize| CACHING.get(number)).copied();
    let lines: Vec<String> = request
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let text = format!("{} {}\n{}", request.method(), request.uri(), lines.join("\n"));
    let echo = lines.join(" ");
    let is_same = request.headers().contains_key("if-none-match");
    Response::builder()
        .status(if is_same { 304 } else { 200 })
        .header("Content-Type", "text/javascript")
        .header("Cache-Control", caching.unwrap_or("max-age=600"))
        .header("ETag", "\"1\"")
        // Only the first response of a connection can be shared.
        .header("Connection", "close")
        .header("X-Echo", echo)
        .body(whole(if is_same { String::new() } else { text }))
        .expect("a valid response")
}

async fn repeating_origin_pair() -> Result<(Origin, Pair)> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| std::future::ready(repeat_request(&request)),
    )
    .await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    Ok((origin, pair))
}

/// The browser's fields with one of them replaced.
fn with<'a>(name: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    let others = BROWSER.iter().filter(|(own, _)| !own.eq_ignore_ascii_case(name));
    others.copied().chain([(name, value)]).collect()
}

fn assert_clean(response: &RawResponse, what: &str) {
    let fields = format!("{:?}", response.fields);
    assert!(
        !response.text().contains("poison") && !fields.contains("poison"),
        "{what} reached another device: {fields}\n{}",
        response.text()
    );
}

/// F10: a response that repeats parts of a device's request is not shared with other devices.
#[tokio::test]
async fn request_fields_of_a_device_reach_no_other_device() -> Result<()> {
    let (_origin, pair) = repeating_origin_pair().await?;
    let second = pair.second_agent("second").await?;
    let mut repeated = 0;
    for (number, name) in FIELDS.iter().enumerate() {
        for caching in 0..CACHING.len() {
            let url = format!("{SITE}/{caching}/{number}.js");
            let poisoned = ask(pair.proxy(), get(&url, &with(name, POISON))).await?;
            repeated += usize::from(poisoned.text().contains("poison"));
            let clean = ask(second.address(), get(&url, BROWSER)).await?;
            assert_clean(&clean, name);
            assert_eq!(clean.status, 200, "{name}");
        }
    }
    println!("{repeated} responses repeated the poison to its sender");
    assert!(
        repeated >= 25 * CACHING.len(),
        "the attack itself no longer works: {repeated}"
    );
    Ok(())
}

/// Poison in the method, the port, the query or a fragment reaches no other device.
#[tokio::test]
async fn method_port_query_and_fragment_reach_no_other_device() -> Result<()> {
    let (_origin, pair) = repeating_origin_pair().await?;
    let second = pair.second_agent("second").await?;
    let heads = [
        "HEAD http://site.test/0/x.js HTTP/1.1\r\nHost: site.test\r\nX-Poison: poison\r\n\r\n",
        "OPTIONS http://site.test/0/x.js HTTP/1.1\r\nHost: site.test\r\nOrigin: http://poison\r\n\r\n",
        "POST http://site.test/0/x.js HTTP/1.1\r\nHost: site.test\r\nContent-Length: 6\r\n\r\npoison",
        "GET http://site.test:80/0/x.js HTTP/1.1\r\nHost: site.test:80\r\nUser-Agent: poison\r\n\r\n",
        "GET http://site.test/0/x.js?poison HTTP/1.1\r\nHost: site.test\r\n\r\n",
        "GET http://site.test/0/x.js#poison HTTP/1.1\r\nHost: site.test\r\nAccept: poison\r\n\r\n",
        "GET http://SITE.test/0/x.js HTTP/1.1\r\nHost: poison.test\r\nFrom: poison\r\n\r\n",
    ];
    for head in heads {
        let mut client = longhaul_tests::client::RawClient::connect(pair.proxy()).await?;
        client.send(head).await?;
        // A refusal is correct, too.
        let _answered = client.head().await;
        let clean = ask(second.address(), get(&format!("{SITE}/0/x.js"), BROWSER)).await?;
        assert_clean(&clean, head.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// Fields of a 304 response to one device do not change the shared response for others.
#[tokio::test]
async fn a_304_for_one_device_does_not_change_shared_responses() -> Result<()> {
    let (origin, pair) = repeating_origin_pair().await?;
    let second = pair.second_agent("second").await?;
    for (number, name) in ["X-Made-Up", "Cookie", "Authorization", "From", "X-Forwarded-Host"]
        .into_iter()
        .enumerate()
    {
        let url = format!("{SITE}/1/{number}.js");
        ask(pair.proxy(), get(&url, BROWSER)).await?;
        let before = origin.seen().len();
        let anew = [with(name, POISON), vec![("Cache-Control", "max-age=0")]].concat();
        ask(pair.proxy(), get(&url, &anew)).await?;
        assert!(
            origin.seen().len() > before,
            "the origin received no validation request"
        );
        let clean = ask(second.address(), get(&url, BROWSER)).await?;
        assert_clean(&clean, name);
    }
    Ok(())
}

/// Devices with equal browsers share responses that a shared cache may store.
#[tokio::test]
async fn equal_browsers_on_two_devices_share_public_responses() -> Result<()> {
    let (origin, pair) = repeating_origin_pair().await?;
    let second = pair.second_agent("second").await?;
    for (caching, directives) in CACHING.iter().enumerate() {
        let url = format!("{SITE}/{caching}/shared.js");
        let first = ask(pair.proxy(), get(&url, BROWSER)).await?;
        // A request with cookies may use a shared response that the origin declares public.
        let known = [BROWSER, &[("Cookie", "a=1")]].concat();
        let fields = if caching == 1 { &known[..] } else { BROWSER };
        let other = ask(second.address(), get(&url, fields)).await?;
        assert_eq!(first.text(), other.text());
        let path = format!("/{caching}/shared.js");
        let request_count = origin.seen().iter().filter(|seen| seen.path == path).count();
        assert_eq!(request_count, 1, "{directives}");
    }
    Ok(())
}
