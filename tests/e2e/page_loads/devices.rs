//! Two devices of one gateway: private responses and logins of one device never reach the other.
use std::{collections::BTreeMap, path::Path};

use parking_lot::Mutex;

use anyhow::Result;
use longhaul_tests::{
    client::{RawClient, get},
    raw_origin::{Kept, RawOrigin},
};

use super::{answer, body, files_with, page, request_field, site, unique_text, visitor::Visitor};
use crate::pair::{Pair, Setup};

const PAGE: &str = "http://site.test/";
/// `Cache-Control` of the account's responses.
const CACHING: &[&str] = &[
    "",
    "private",
    "private, max-age=600",
    "no-store",
    "no-cache",
    "max-age=600",
    "private, no-transform, max-age=600",
];

#[tokio::test]
async fn two_devices_receive_their_own_accounts() -> Result<()> {
    let (origin, pair) = site(|request| {
        let cookie = request_field(request, "cookie");
        let caching = CACHING
            .get(
                request
                    .uri()
                    .query()
                    .and_then(|query| query.parse().ok())
                    .unwrap_or(usize::MAX),
            )
            .copied()
            .unwrap_or_default();
        let mut fields = vec![("Content-Type", "text/html")];
        if !caching.is_empty() {
            fields.push(("Cache-Control", caching));
        }
        match request.uri().path() {
            "/" => {
                let names: Vec<String> = (0..CACHING.len())
                    .map(|number| format!("a.js?{number}"))
                    .collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                answer(
                    200,
                    &[("Content-Type", "text/html")],
                    format!("{}<p>{cookie}", page(&names)),
                )
            }
            _ => answer(200, &fields, format!("account of {cookie}")),
        }
    })
    .await?;
    let second = pair.second_agent("second").await?;
    let objects: Vec<String> = (0..CACHING.len())
        .map(|number| format!("{PAGE}a.js?{number}"))
        .collect();
    let urls: Vec<&str> = objects.iter().map(String::as_str).collect();
    let visitors = [(pair.proxy(), "anna"), (second.address(), "bert")]
        .map(|(proxy, name)| (name, Visitor::new(proxy).with_cookie("site.test", "user", name)));
    for round in 0..3 {
        let visits = visitors.iter().map(|(_, visitor)| visitor.visit(PAGE, &urls));
        let visits = futures_util::future::try_join_all(visits).await?;
        for ((name, _), visit) in visitors.iter().zip(&visits) {
            let text = visit.page.text();
            assert!(
                text.ends_with(&format!("<p>user={name}")),
                "round {round}: {text}"
            );
            for (url, caching) in urls.iter().zip(CACHING) {
                let found = visit.object(url).text();
                assert_eq!(
                    found,
                    format!("account of user={name}"),
                    "round {round}, `{caching}`"
                );
            }
        }
    }
    let never_kept = format!(
        "/a.js?{}",
        CACHING
            .iter()
            .position(|caching| *caching == "no-store")
            .unwrap_or(0)
    );
    assert!(
        super::request_count(&origin, &never_kept) >= 6,
        "a no-store response was reused"
    );
    Ok(())
}

/// A `no-store` response is in no file of either program, whatever its type and requester.
#[tokio::test]
async fn no_store_responses_are_in_no_file() -> Result<()> {
    let (secret, public) = (unique_text("secret"), unique_text("public"));
    let (hidden, open) = (secret.clone(), public.clone());
    let (_origin, mut pair) = site(move |request| {
        let kind = ("Content-Type", "text/html");
        match request.uri().path() {
            "/" => answer(
                200,
                &[kind, ("Cache-Control", "no-store")],
                format!(
                    "{}<p>{hidden}-page",
                    page(&["secret.js", "secret.css", "public.js"])
                ),
            ),
            "/public.js" => answer(
                200,
                &[("Cache-Control", "public, max-age=3600")],
                format!("// {open}\n{}", "var x = 1;\n".repeat(500)),
            ),
            path => answer(
                200,
                &[
                    ("Cache-Control", "no-store"),
                    ("ETag", &format!("\"{hidden}-tag\"")),
                ],
                format!("{hidden}-{}", &path[1..]),
            ),
        }
    })
    .await?;
    let urls = ["secret.js", "secret.css", "public.js"].map(|name| format!("{PAGE}{name}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for _ in 0..2 {
        let visit = Visitor::new(pair.proxy()).visit(PAGE, &urls).await?;
        assert!(String::from_utf8_lossy(body(&visit.page)).contains(&secret));
        assert_eq!(
            body(visit.object(urls[0])),
            format!("{secret}-secret.js").as_bytes()
        );
    }
    assert_in_no_file(pair.folder(), &secret, "while both run");
    pair.end().await?;
    assert_in_no_file(pair.folder(), &secret, "after both ended");
    // Check that the search finds a public response, so that finding nothing has a meaning.
    if files_with(pair.folder(), &public).is_empty() {
        println!("SKIPPED: stored responses are not found in the files, so the search is without meaning");
    }
    Ok(())
}

fn assert_in_no_file(folder: &Path, secret: &str, when: &str) {
    let found = files_with(folder, secret);
    let around = found.iter().map(|path| around(path, secret)).collect::<Vec<_>>();
    assert!(found.is_empty(), "{when}: the secret is in a file: {around:#?}");
}

/// Position of a text in a file, with the bytes around it.
fn around(path: &Path, wanted: &str) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let places = bytes
        .windows(wanted.len())
        .enumerate()
        .filter(|(_, window)| *window == wanted.as_bytes());
    let places = places.take(4).map(|(at, _)| {
        let part = &bytes[at.saturating_sub(120)..bytes.len().min(at + wanted.len() + 40)];
        format!("{at}: {}", part.escape_ascii())
    });
    format!("{}: {}", path.display(), places.collect::<Vec<_>>().join("; "))
}

/// An origin that requires NTLM: authentication of a request authenticates all requests of its connection.
fn ntlm_origin() -> impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static {
    let known = Mutex::new(BTreeMap::<usize, String>::new());
    move |request| {
        let mut known = known.lock();
        let refused = |field: &str| {
            format!("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: {field}\r\nContent-Length: 2\r\n\r\nno")
                .into_bytes()
        };
        let proof = request.field("authorization").unwrap_or_default().to_owned();
        if proof.starts_with("NTLM negotiate") {
            known.remove(&request.connection);
            // The following steps must arrive on the same connection.
            known.insert(request.connection, String::new());
            return refused("NTLM challenge");
        }
        if let Some(user) = proof.strip_prefix("NTLM proof-of-")
            && known.contains_key(&request.connection)
        {
            known.insert(request.connection, user.to_owned());
        }
        match known.get(&request.connection).filter(|user| !user.is_empty()) {
            Some(user) => {
                let text = format!("files of {user}");
                let caching = if request.path().contains("fresh") {
                    "Cache-Control: max-age=600\r\n"
                } else {
                    ""
                };
                format!(
                    "HTTP/1.1 200 OK\r\n{caching}Content-Length: {}\r\n\r\n{text}",
                    text.len()
                )
                .into_bytes()
            }
            None => refused("NTLM"),
        }
    }
}

async fn log_in(client: &mut RawClient, url: &str, user: &str) -> Result<u16> {
    let accept = ("Upgrade-Insecure-Requests", "1");
    client.send(get(url, &[accept])).await?;
    let first = client.response().await?;
    assert_eq!(first.status, 401, "{}", first.text());
    client
        .send(get(url, &[accept, ("Authorization", "NTLM negotiate")]))
        .await?;
    client.response().await?;
    let proof = format!("NTLM proof-of-{user}");
    client
        .send(get(url, &[accept, ("Authorization", &proof)]))
        .await?;
    let last = client.response().await?;
    if last.status == 200 {
        assert_eq!(last.text(), format!("files of {user}"));
    }
    Ok(last.status)
}

async fn ntlm_pair() -> Result<(RawOrigin, Pair)> {
    let origin = RawOrigin::start_kept(ntlm_origin()).await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", origin.address())])).await?;
    Ok((origin, pair))
}

/// A connection of the gateway on which one device has authenticated serves no other device.
#[tokio::test]
async fn connection_bound_logins_do_not_extend_to_other_devices() -> Result<()> {
    let (_origin, pair) = ntlm_pair().await?;
    let second = pair.second_agent("second").await?;
    for path in ["", "fresh.html"] {
        let url = format!("{PAGE}{path}");
        let mut anna = RawClient::connect(pair.proxy()).await?;
        let status = log_in(&mut anna, &url, "anna").await?;
        println!("{path}: login through the pair: status {status}");
        for attempt in 0..12 {
            let stranger = Visitor::new(second.address());
            let seen = stranger.page(&url).await?;
            assert_eq!(
                seen.status,
                401,
                "attempt {attempt} of another device without login: {}",
                seen.text()
            );
        }
    }
    Ok(())
}

/// The login also does not extend to another browser connection of the same device.
#[tokio::test]
async fn connection_bound_logins_do_not_extend_to_other_connections() -> Result<()> {
    let (_origin, pair) = ntlm_pair().await?;
    let mut anna = RawClient::connect(pair.proxy()).await?;
    let status = log_in(&mut anna, PAGE, "anna").await?;
    println!("login through the pair: status {status}");
    for attempt in 0..12 {
        let seen = Visitor::new(pair.proxy()).page(PAGE).await?;
        assert_eq!(
            seen.status,
            401,
            "attempt {attempt} of another connection without login: {}",
            seen.text()
        );
    }
    Ok(())
}

/// NTLM authentication succeeds on one connection of the browser, as without Longhaul.
#[tokio::test]
async fn a_connection_bound_login_succeeds() -> Result<()> {
    let (_origin, pair) = ntlm_pair().await?;
    for attempt in 0..3 {
        let mut anna = RawClient::connect(pair.proxy()).await?;
        assert_eq!(log_in(&mut anna, PAGE, "anna").await?, 200, "attempt {attempt}");
        // All further requests of the connection are authenticated.
        anna.send(get(PAGE, &[("Upgrade-Insecure-Requests", "1")]))
            .await?;
        assert_eq!(anna.response().await?.text(), "files of anna");
    }
    Ok(())
}
