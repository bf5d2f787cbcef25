//! Tests of hosts that the gateway could not reach: the page's further requests fail without a fetch.
use longhaul_session::FailureReason;

use crate::support::script::{AS_PAGE, OF_PAGE, PAGE, World};

const MISSING: &str = "http://missing.test";

/// Requests an object of the missing host, to which the gateway answers with `reason`.
async fn fail(world: &mut World, path: &str, reason: FailureReason) {
    let browser = world.agent.begin(&format!("{MISSING}{path}"), &[OF_PAGE]);
    world.fetch().await.failed(reason).await;
    let reply = browser.await.unwrap();
    assert_eq!(reply.status, 502);
}

#[tokio::test]
async fn one_failure_answers_the_pages_other_requests_to_the_host() {
    let mut world = World::new().await;
    let (_page, manifest) = world.page(&[]).await;
    fail(&mut world, "/first", FailureReason::DnsNotFound).await;
    let replies = [1, 2, 3].map(|number| world.agent.begin(&format!("{MISSING}/{number}"), &[OF_PAGE]));
    for reply in replies {
        let reply = reply.await.unwrap();
        assert_eq!(reply.status, 502);
        assert!(reply.field("proxy-status").unwrap().contains("dns_error"));
    }
    world.no_fetch();
    assert_eq!(world.agent.status().exits["lookup.unreachable"], 3);
    // Another port and another host are asked.
    for url in ["http://missing.test:8080/x", "http://site.test/x"] {
        let browser = world.agent.begin(url, &[OF_PAGE]);
        world.fetch().await.answer(200, &[], b"there").await;
        assert_eq!(browser.await.unwrap().text(), "there");
    }
    manifest.finish().await;
}

#[tokio::test]
async fn a_navigation_and_a_new_load_of_the_page_ask_again() {
    let mut world = World::new().await;
    let (_page, _manifest) = world.page(&[]).await;
    fail(&mut world, "/first", FailureReason::ConnectionRefused).await;
    let browser = world.agent.begin(&format!("{MISSING}/page"), &[AS_PAGE]);
    world.fetch().await.answer(200, &[], b"a page").await;
    assert_eq!(browser.await.unwrap().text(), "a page");
    let browser = world.agent.begin(PAGE, &[AS_PAGE]);
    world
        .fetch()
        .await
        .answer(200, &[("content-type", "text/html")], b"<html>")
        .await;
    browser.await.unwrap();
    let browser = world.agent.begin(&format!("{MISSING}/again"), &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"back").await;
    assert_eq!(browser.await.unwrap().text(), "back");
}

#[tokio::test]
async fn failures_of_single_requests_and_requests_of_other_sites_are_not_answered_so() {
    let mut world = World::new().await;
    let (_page, _manifest) = world.page(&[]).await;
    let browser = world.agent.begin(&format!("{MISSING}/slow"), &[OF_PAGE]);
    world.fetch().await.failed(FailureReason::ResponseTimeout).await;
    assert_eq!(browser.await.unwrap().status, 504);
    let browser = world.agent.begin(&format!("{MISSING}/next"), &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"there").await;
    assert_eq!(browser.await.unwrap().text(), "there");
    fail(&mut world, "/first", FailureReason::DnsNotFound).await;
    let of_other = ("referer", "http://other.test/");
    let browser = world.agent.begin(&format!("{MISSING}/first"), &[of_other]);
    world.fetch().await.answer(200, &[], b"asked").await;
    assert_eq!(browser.await.unwrap().text(), "asked");
}
