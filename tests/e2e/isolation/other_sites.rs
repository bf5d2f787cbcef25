//! Isolation between sites: a page of one site must not learn data of another.
use anyhow::Result;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
};

use super::browser_requests::{Initiator, PairOver, request_count};
use crate::content::ok;

const VICTIM: &str = "victim.test";
const EVIL: &str = "evil.test";
const HOSTS: [&str; 3] = [VICTIM, EVIL, "third.test"];

/// A site with a private script, which it refuses to pages of other sites, and a site that redirects to it.
async fn answer(request: Request<Incoming>) -> Response<AnswerBody> {
    let field = |name: &str| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let (cookie, referrer) = (field("cookie"), field("referer"));
    let is_foreign = match field("sec-fetch-site") {
        "" => referrer.contains(EVIL) || referrer.is_empty(),
        site => site != "same-origin",
    };
    let scheme = if field("sec-fetch-mode").is_empty() {
        "http"
    } else {
        "https"
    };
    match (request.uri().path(), is_foreign) {
        ("/go", _) => {
            let mut response = ok("text/html", String::new());
            *response.status_mut() = StatusCode::FOUND;
            let location = HeaderValue::try_from(format!("{scheme}://{VICTIM}/")).expect("a URL");
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
        ("/app.js" | "/own.js", true) => {
            let mut response = ok("text/plain", "refused".to_owned());
            *response.status_mut() = StatusCode::FORBIDDEN;
            response
        }
        ("/app.js" | "/own.js" | "/cached.js", _) => {
            let mut response = ok("text/javascript", format!("secret of {cookie}"));
            let private = HeaderValue::from_static("private, max-age=600");
            response.headers_mut().insert(header::CACHE_CONTROL, private);
            response
        }
        ("/", _) => ok(
            "text/html",
            "<!doctype html><link rel=icon href=data:,><script src=/own.js></script>".to_owned(),
        ),
        _ => ok("text/html", "<!doctype html>evil".to_owned()),
    }
}

async fn pairs_over_both_schemes() -> Result<Vec<(Origin, PairOver)>> {
    let authority = TestAuthority::new()?;
    let plain = Origin::start(None, |_| {}, answer).await?;
    let secure = Origin::start(Some(authority.server(&HOSTS)?), |_| {}, answer).await?;
    let http = PairOver::http(&HOSTS, &plain).await?;
    let https = PairOver::https(&HOSTS, &secure, &authority).await?;
    Ok(vec![(plain, http), (secure, https)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_a_site_gives_no_access_to_its_stored_responses() -> Result<()> {
    for (_origin, world) in pairs_over_both_schemes().await? {
        let own = world
            .request(VICTIM, "/app.js", Initiator::Page(VICTIM), "__Host-sid=1")
            .await?;
        assert_eq!(own, "secret of __Host-sid=1");
        // The attacker navigates to its own URL, which redirects to the victim, and requests the script
        // during that navigation and after it.
        world.request(EVIL, "/go", Initiator::User, "").await?;
        assert_eq!(
            world
                .request(VICTIM, "/app.js", Initiator::Page(EVIL), "")
                .await?,
            "refused"
        );
        world
            .request(VICTIM, "/", Initiator::Link(EVIL), "__Host-sid=1")
            .await?;
        for by in [
            Initiator::Page(EVIL),
            Initiator::Fetch(EVIL),
            Initiator::NoReferrer,
            Initiator::Page("third.test"),
        ] {
            for path in ["/app.js", "/own.js"] {
                let body = world.request(VICTIM, path, by, "").await?;
                assert!(!body.contains("sid=1"), "{by:?} {path}: {body}");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_answers_only_requests_of_its_page() -> Result<()> {
    for (_origin, world) in pairs_over_both_schemes().await? {
        world.request(EVIL, "/", Initiator::User, "").await?;
        world
            .request(VICTIM, "/", Initiator::User, "__Host-sid=1")
            .await?;
        let pushed = world
            .pair()
            .status_until(|status| status["announced"].as_u64() >= Some(1))
            .await?;
        assert!(pushed["pages"].as_u64() >= Some(1), "{pushed}");
        for by in [
            Initiator::Page(EVIL),
            Initiator::Fetch(EVIL),
            Initiator::NoReferrer,
        ] {
            let body = world.request(VICTIM, "/own.js", by, "").await?;
            assert!(!body.contains("sid=1"), "{by:?}: {body}");
        }
        let own = world
            .request(VICTIM, "/own.js", Initiator::Page(VICTIM), "__Host-sid=1")
            .await?;
        assert_eq!(own, "secret of __Host-sid=1");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_requester_share_no_stored_response() -> Result<()> {
    for (origin, world) in pairs_over_both_schemes().await? {
        for _ in 0..2 {
            world
                .request(VICTIM, "/cached.js", Initiator::NoReferrer, "")
                .await?;
        }
        assert_eq!(
            request_count(&origin, "/cached.js"),
            2,
            "requests without requester share no stored response"
        );
        world
            .request(VICTIM, "/cached.js", Initiator::Page(EVIL), "")
            .await?;
        assert_eq!(request_count(&origin, "/cached.js"), 3);
        world
            .request(VICTIM, "/cached.js", Initiator::Page(EVIL), "")
            .await?;
        assert_eq!(
            request_count(&origin, "/cached.js"),
            3,
            "a requester's own stored response is reused"
        );
    }
    Ok(())
}
