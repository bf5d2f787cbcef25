//! Removal of a site's data on request at both ends, verified by the contents of files.
use std::path::{Path, PathBuf};

use anyhow::Result;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    client::ask,
    origin::{AnswerBody, Origin},
    process::{Finished, run},
};

use super::browser_requests::{Initiator, PairOver, request_count};
use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, Pair},
};

const BANK: &str = "www.bank.test";
const NEWS: &str = "news.test";
const HOSTS: [&str; 3] = [BANK, NEWS, "cdn.test"];

/// Pages with unique words, and a script of the page.
async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let host = request.uri().host().map(str::to_owned);
    let field = request.headers().get(header::HOST);
    let host = host.or_else(|| field.and_then(|host| host.to_str().ok()).map(str::to_owned));
    let words = format!("words-of-{} ", host.unwrap_or_default().replace('.', "-"));
    let mut response = match request.uri().path() {
        "/" => ok(
            "text/html",
            format!(
                "<!doctype html><script src=/app.js></script>{}",
                words.repeat(300)
            ),
        ),
        _ => ok("text/javascript", format!("/* {} */", words.repeat(300))),
    };
    let caching = HeaderValue::from_static("private, max-age=600");
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    response
}

/// Files in the caches of both programs that contain a text.
fn files_with(pair: &Pair, text: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ["agent", "gateway"].map(|name| pair.folder().join(name)).into();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if contains_text(&path, text) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn contains_text(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn forget(pair: &Pair, site: &[&str]) -> Result<Finished> {
    let state = pair.folder().join("agent").display().to_string();
    let arguments = [&["forget", "--state-dir", &state], site].concat();
    run("longhaul-agent", &arguments, COMMAND_LIMIT).await
}

async fn visit(world: &PairOver, host: &str) -> Result<()> {
    world.request(host, "/", Initiator::User, "sid=1").await?;
    world
        .request(host, "/app.js", Initiator::Page(host), "sid=1")
        .await?;
    world
        .request("cdn.test", "/lib.js", Initiator::Page(host), "")
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_a_site_removes_its_data_at_both_ends() -> Result<()> {
    let authority = TestAuthority::new()?;
    let plain = Origin::start(None, |_| {}, answer).await?;
    let secure = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let pairs = [
        (PairOver::http(&HOSTS, &plain).await?, &plain),
        (PairOver::https(&HOSTS, &secure, &authority).await?, &secure),
    ];
    for (world, origin) in pairs {
        let pair = world.pair();
        visit(&world, BANK).await?;
        visit(&world, NEWS).await?;
        for words in ["words-of-www-bank-test", "words-of-news-test"] {
            assert!(
                files_with(pair, words)?.len() >= 2,
                "{words}: not stored at both ends"
            );
        }
        let done = forget(pair, &["bank.test"]).await?;
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.contains("at the gateway"), "{done:?}");
        for trace in ["words-of-www-bank-test", "www.bank.test"] {
            let left = files_with(pair, trace)?;
            let left: Vec<_> = left.iter().filter(|path| !is_authority(path)).collect();
            assert!(left.is_empty(), "{trace} in {left:?}");
        }
        assert!(!files_with(pair, "words-of-news-test")?.is_empty());
        let before = request_count(origin, "/lib.js");
        visit(&world, NEWS).await?;
        assert_eq!(
            request_count(origin, "/lib.js"),
            before,
            "objects of another site were removed"
        );
        visit(&world, BANK).await?;
        assert_eq!(
            request_count(origin, "/lib.js"),
            before + 1,
            "objects of the forgotten site were not fetched again"
        );
        let done = forget(pair, &[]).await?;
        assert!(done.stdout.contains("everything"), "{done:?}");
        for words in [
            "words-of-www-bank-test",
            "words-of-news-test",
            "words-of-cdn-test",
        ] {
            let left = files_with(pair, words)?;
            assert!(left.is_empty(), "{words} in {left:?}");
        }
    }
    Ok(())
}

/// The operator's settings contain host names, too.
fn is_authority(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_requires_a_valid_site_and_the_control_token() -> Result<()> {
    let origin = Origin::start(None, |_| {}, answer).await?;
    let world = PairOver::http(&HOSTS, &origin).await?;
    let pair = world.pair();
    let done = forget(pair, &["https://bank.test/"]).await?;
    assert_ne!(done.code, Some(0));
    assert!(done.stderr.contains("host name"), "{done:?}");
    let control = pair.control()?;
    for fields in ["", "Origin: http://evil.test\r\n"] {
        let request = format!(
            "POST /forget HTTP/1.1\r\nHost: {control}\r\n{fields}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = ask(control, request).await?;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_site_is_forgotten_at_an_unreachable_gateway_later() -> Result<()> {
    let origin = Origin::start(None, |_| {}, answer).await?;
    let mut world = PairOver::http(&HOSTS, &origin).await?;
    visit(&world, BANK).await?;
    let PairOver::Http(pair) = &mut world else {
        anyhow::bail!("it is over http");
    };
    pair.kill_gateway().await?;
    let done = forget(pair, &["bank.test"]).await?;
    assert!(done.stdout.contains("as soon as"), "{done:?}");
    assert!(
        !files_with(pair, "words-of-www-bank-test")?.is_empty(),
        "the gateway's"
    );
    pair.start_gateway().await?;
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(100));
    let forgotten = async {
        while !files_with(pair, "words-of-www-bank-test")?.is_empty() {
            looks.tick().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(crate::pair::LIMIT, forgotten).await??;
    Ok(())
}
