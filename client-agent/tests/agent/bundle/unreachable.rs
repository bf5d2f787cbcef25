//! Tests of hosts that the gateway could not reach: the page's further requests fail without a fetch.
use longhaul_session::{
    AbsentHost, EntryBody, EntryFailure, EntryId, FailureReason, Message, Record, Withdrawal,
};

use crate::support::script::{AS_PAGE, FRESH, OF_OTHER_SITE, OF_PAGE, PAGE, World, reusable, shaped};

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

fn absent(reason: FailureReason) -> Record {
    Record::Absent(AbsentHost {
        origin: MISSING.to_owned(),
        reason,
        detail: "no such name".to_owned(),
        seconds: 30,
    })
}

const WITHDRAWN: Record = Record::Withdrawn {
    entry: EntryId::FIRST,
    reason: Withdrawal::Failed,
};

/// A host that the manifest announces as absent costs no fetch at all, whether its URLs are announced or not.
#[tokio::test]
async fn an_announced_absent_host_answers_without_a_fetch() {
    let mut world = World::new().await;
    let planned = format!("{MISSING}/planned");
    let (_page, mut manifest) = world.page(&[&planned]).await;
    let waiting = world.agent.begin(&planned, &[OF_PAGE]);
    manifest.record(absent(FailureReason::DnsNotFound)).await;
    manifest.record(WITHDRAWN).await;
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 502);
    assert!(reply.field("proxy-status").unwrap().contains("dns_error"));
    let script = world.agent.begin(&format!("{MISSING}/script"), &[OF_PAGE]);
    assert_eq!(script.await.unwrap().status, 502);
    world.no_fetch();
    // Requests of other sites, and those that cannot be repeated, are asked.
    let other = ("referer", "http://other.test/");
    let browser = world.agent.begin(&planned, &[other]);
    world.fetch().await.answer(200, &[], b"asked").await;
    assert_eq!(browser.await.unwrap().text(), "asked");
    manifest.record(Record::Planned).await;
    manifest.finish().await;
    let _next = world.agent.begin("http://site.test/next", &[AS_PAGE]);
    // The gateway learns that the browser still asks for the entry.
    let used = world
        .control(|message| {
            if let Message::Used(used) = message {
                Some(used)
            } else {
                None
            }
        })
        .await;
    assert!(used.is_taken(EntryId::FIRST));
}

#[tokio::test]
async fn an_absent_host_that_answers_is_asked_again() {
    let mut world = World::new().await;
    let planned = format!("{MISSING}/planned");
    let (_page, mut manifest) = world.page(&[&planned]).await;
    manifest.record(absent(FailureReason::ConnectionRefused)).await;
    let head = reusable(0, &[FRESH], EntryBody::None);
    manifest.head(shaped(OF_OTHER_SITE, head)).await;
    let reply = world.agent.begin(&planned, &[OF_PAGE]).await.unwrap();
    assert_eq!(reply.status, 200);
    let browser = world.agent.begin(&format!("{MISSING}/more"), &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"there").await;
    assert_eq!(browser.await.unwrap().text(), "there");
}

#[tokio::test]
async fn an_entry_whose_host_did_not_answer_fails_without_a_fetch() {
    let mut world = World::new().await;
    let slow = "http://slow.test/a.png";
    let (_page, mut manifest) = world.page(&[slow]).await;
    let failure = EntryFailure {
        entry: EntryId::FIRST,
        reason: FailureReason::ConnectTimeout,
        detail: "no answer".to_owned(),
    };
    let waiting = world.agent.begin(slow, &[OF_PAGE]);
    manifest.record(Record::Failed(failure)).await;
    assert_eq!(waiting.await.unwrap().status, 504);
    assert_eq!(world.agent.begin(slow, &[OF_PAGE]).await.unwrap().status, 504);
    world.no_fetch();
    assert_eq!(world.agent.exits("promised.failed"), 2);
    // Other URLs of the host are asked.
    let browser = world.agent.begin("http://slow.test/b.png", &[OF_PAGE]);
    world.fetch().await.answer(200, &[], b"there").await;
    assert_eq!(browser.await.unwrap().text(), "there");
}
