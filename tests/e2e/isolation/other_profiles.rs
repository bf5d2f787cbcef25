//! Isolation between browser profiles, users and logins of one device.
use anyhow::Result;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};

use super::browser_requests::{Initiator, PairOver, request_count};
use crate::{
    content::ok,
    https::{Accelerated, LOAD_LIMIT},
};

const BANK: &str = "bank.test";
const HOSTS: [&str; 5] = [BANK, "tracker.test", "a.test", "b.test", "c.test"];

/// A bank that displays the account of the request's cookie, and a tracker that numbers its visitors.
async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let cookie = request.headers().get(header::COOKIE);
    let cookie = cookie.and_then(|cookie| cookie.to_str().ok()).unwrap_or("nobody");
    let query = request.uri().query().unwrap_or_default();
    let mut fields = Vec::new();
    let body = match request.uri().path() {
        "/login" => {
            fields.push((header::SET_COOKIE, format!("sid={query}; Path=/; Secure")));
            "<!doctype html><p id=said>in".to_owned()
        }
        "/logout" => {
            fields.push((header::SET_COOKIE, "sid=; Path=/; Max-Age=0; Secure".to_owned()));
            let clear = http::HeaderName::from_static("clear-site-data");
            fields.push((clear, "\"cache\", \"storage\"".to_owned()));
            "<!doctype html><p id=said>out".to_owned()
        }
        "/account" => {
            fields.push((header::CACHE_CONTROL, "private, max-age=600".to_owned()));
            format!("<!doctype html><link rel=icon href=data:,><p id=said>account of {cookie}")
        }
        "/rates" => {
            fields.push((header::CACHE_CONTROL, "max-age=600".to_owned()));
            format!("rates for {cookie}")
        }
        "/id" => {
            fields.push((header::CACHE_CONTROL, "private, max-age=600".to_owned()));
            format!(
                "visitor {}",
                NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            )
        }
        _ => String::new(),
    };
    let mut response = ok("text/html", body);
    for (name, value) in fields {
        let value = HeaderValue::try_from(value).expect("a field value");
        response.headers_mut().append(name, value);
    }
    response
}

static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// The hosts over http and over accelerated https.
async fn pairs_over_both_schemes() -> Result<Vec<(Origin, PairOver)>> {
    let authority = TestAuthority::new()?;
    let plain = Origin::start(None, |_| {}, answer).await?;
    let secure = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let http = PairOver::http(&HOSTS, &plain).await?;
    let https = PairOver::https(&HOSTS, &secure, &authority).await?;
    Ok(vec![(plain, http), (secure, https)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_document_answers_only_the_same_login() -> Result<()> {
    for (origin, world) in pairs_over_both_schemes().await? {
        let account = async |cookie| world.request(BANK, "/account", Initiator::User, cookie).await;
        for _ in 0..2 {
            assert!(account("sid=ada").await?.ends_with("account of sid=ada"));
        }
        assert_eq!(
            request_count(&origin, "/account"),
            1,
            "the second response came from a cache"
        );
        assert!(account("").await?.ends_with("account of nobody"));
        assert!(account("sid=bob").await?.ends_with("account of sid=bob"));
        assert_eq!(request_count(&origin, "/account"), 3);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cross_site_request_without_cookie_gets_no_response_made_with_a_cookie() -> Result<()> {
    for (origin, world) in pairs_over_both_schemes().await? {
        let own = world
            .request(BANK, "/rates", Initiator::Page(BANK), "sid=ada")
            .await?;
        assert_eq!(own, "rates for sid=ada");
        for by in [
            Initiator::Page("a.test"),
            Initiator::Page(BANK),
            Initiator::NoReferrer,
            Initiator::Fetch("a.test"),
        ] {
            let foreign = world.request(BANK, "/rates", by, "").await?;
            assert_eq!(foreign, "rates for nobody", "{by:?}");
        }
        assert!(request_count(&origin, "/rates") >= 2);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_responses_do_not_identify_a_visitor_across_sites() -> Result<()> {
    for (origin, world) in pairs_over_both_schemes().await? {
        let mut ids = Vec::new();
        for site in ["a.test", "b.test", "c.test"] {
            ids.push(
                world
                    .request("tracker.test", "/id", Initiator::Page(site), "")
                    .await?,
            );
            let again = world
                .request("tracker.test", "/id", Initiator::Page(site), "")
                .await?;
            assert_eq!(Some(&again), ids.last(), "one site sees one id");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), request_count(&origin, "/id")), (3, 3), "{ids:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clear_site_data_clears_both_caches() -> Result<()> {
    for (origin, world) in pairs_over_both_schemes().await? {
        for by in [Initiator::User, Initiator::Link("a.test")] {
            world.request(BANK, "/account", by, "sid=ada").await?;
        }
        world
            .request(BANK, "/rates", Initiator::Page("a.test"), "")
            .await?;
        let before = (
            request_count(&origin, "/account"),
            request_count(&origin, "/rates"),
        );
        assert!(
            world
                .request(BANK, "/logout", Initiator::User, "sid=ada")
                .await?
                .contains("out")
        );
        world
            .request(BANK, "/account", Initiator::User, "sid=ada")
            .await?;
        world
            .request(BANK, "/rates", Initiator::Page("a.test"), "")
            .await?;
        let after = (
            request_count(&origin, "/account"),
            request_count(&origin, "/rates"),
        );
        assert_eq!(after, (before.0 + 1, before.1 + 1));
    }
    Ok(())
}

/// A browser with a profile of its own, in a private window if the arguments say so.
async fn profile(site: &Accelerated, arguments: &[&str]) -> Result<Browser> {
    let mut options = BrowserOptions::behind(site.pair.proxy());
    options.trust_spki = vec![site.pin()?];
    options.extra = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    Ok(Browser::start(&options).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_and_private_windows_receive_their_own_accounts() -> Result<()> {
    let authority = TestAuthority::new()?;
    let origin = Origin::start(Some(authority.server(&[BANK])?), |_| {}, answer).await?;
    let site = Accelerated::start(&[(BANK, origin.address())], &authority, "all").await?;
    let text_of = async |browser: &mut Browser, path: &str| {
        let url = format!("https://{BANK}{path}");
        let script = "document.getElementById('said').textContent";
        browser.evaluate(&url, script, LOAD_LIMIT).await
    };
    let mut ada = profile(&site, &[]).await?;
    let mut bob = profile(&site, &[]).await?;
    let mut private = profile(&site, &["--incognito"]).await?;
    assert_eq!(text_of(&mut ada, "/login?ada").await?, "in");
    assert_eq!(text_of(&mut ada, "/account").await?, "account of sid=ada");
    assert_eq!(text_of(&mut bob, "/account").await?, "account of nobody");
    assert_eq!(text_of(&mut private, "/account").await?, "account of nobody");
    assert_eq!(text_of(&mut bob, "/login?bob").await?, "in");
    assert_eq!(text_of(&mut bob, "/account?again").await?, "account of sid=bob");
    assert_eq!(text_of(&mut ada, "/account?again").await?, "account of sid=ada");
    assert_eq!(
        text_of(&mut private, "/account?again").await?,
        "account of nobody"
    );
    assert_eq!(text_of(&mut ada, "/logout").await?, "out");
    assert_eq!(text_of(&mut ada, "/account").await?, "account of nobody");
    Ok(())
}
