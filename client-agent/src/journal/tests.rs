use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::BodyExt as _;

use super::*;
use crate::{counters::PhaseExit, proxy_body::ProxyBody};

fn request<'a>(url: &'a str, is_page: bool, referrer: Option<&'a str>) -> NewRequest<'a> {
    NewRequest {
        client: ClientId::OWNER,
        method: &Method::GET,
        url,
        is_page,
        referrer,
        rate: Some(BitRate::kbps(384)),
        rtt: None,
    }
}

#[test]
fn requests_belong_to_the_page_of_their_referrer() {
    let journal = Journal::default();
    let first = journal.begin(request("http://a.test/one", true, None));
    let second = journal.begin(request("http://a.test/two", true, Some("http://a.test/one")));
    assert_eq!((first.page(), second.page()), (Some(0), Some(1)));
    let of = |referrer| {
        journal
            .begin(request("http://cdn.test/x", false, referrer))
            .page()
    };
    assert_eq!(of(Some("http://a.test/one")), Some(0));
    assert_eq!(of(Some("http://a.test/")), Some(1), "only the origin is known");
    assert_eq!(of(Some("http://a.test")), Some(1));
    assert_eq!(of(Some("http://other.test/")), None);
    assert_eq!(of(None), None);
    journal.begin(request(
        "http://a.test/style.css",
        false,
        Some("http://a.test/one"),
    ));
    assert_eq!(of(Some("http://a.test/style.css")), Some(0), "by a style sheet");
}

#[test]
fn other_users_are_not_recorded_and_the_journal_is_bounded() {
    let journal = Journal::default();
    let other = NewRequest {
        client: ClientId::of("4000001 "),
        ..request("http://secret.test/", true, None)
    };
    journal.begin(other).left(PhaseExit::LookupFresh);
    assert!(journal.requests().is_empty());
    for _ in 0..MAX_REQUESTS + 10 {
        journal.begin(request("http://a.test/", true, None));
    }
    let requests = journal.requests();
    assert_eq!((requests.len(), requests[0].number), (MAX_REQUESTS, 10));
}

#[test]
fn forgetting_a_site_deletes_its_pages_with_their_requests() {
    let journal = Journal::default();
    let fill = || {
        journal.begin(request("http://www.a.test/", true, None));
        journal.begin(request("http://cdn.test/x", false, Some("http://www.a.test/")));
        journal.begin(request("http://b.test/", true, None));
        journal.begin(request("http://img.a.test/y", false, Some("http://b.test/")));
        journal.begin(request("http://cdn.test/z", false, Some("http://b.test/")));
    };
    fill();
    journal.remove(Some("a.test"));
    let left: Vec<String> = journal.requests().into_iter().map(|record| record.url).collect();
    assert_eq!(left, ["http://b.test/", "http://cdn.test/z"]);
    journal.remove_page(2);
    assert!(journal.requests().is_empty());
    fill();
    journal.remove(None);
    assert!(journal.requests().is_empty());
}

#[tokio::test]
async fn a_record_has_the_phases_and_the_end_of_its_response() {
    let journal = Journal::default();
    let recording = journal.begin(request("http://a.test/p.jpg", false, None));
    recording.left(PhaseExit::LookupNoPageLoad);
    recording.left(PhaseExit::SentForwarded);
    let mut fields = HeaderMap::new();
    fields.insert("content-type", HeaderValue::from_static("image/webp; q=1"));
    fields.insert("x-longhaul", HeaderValue::from_static("image=medium"));
    recording.answered(StatusCode::OK, &fields);
    recording.carried(500);
    let body = ProxyBody::full(Bytes::from_static(b"12345678")).recorded(recording.of_body());
    assert_eq!(journal.requests()[0].end, ResponseEnd::Running);
    body.collect().await.unwrap();
    let record = &journal.requests()[0];
    assert_eq!((record.source, record.status), (Source::Gateway, Some(200)));
    assert_eq!((record.bytes, record.hop_bytes), (8, 500));
    assert_eq!(
        (record.media.as_str(), record.changed.as_deref()),
        ("image/webp", Some("image=medium"))
    );
    assert_eq!(record.end, ResponseEnd::Complete);
    assert_eq!(record.phases.len(), 2);

    let left = journal.begin(request("http://a.test/long", false, None));
    drop(ProxyBody::full(Bytes::from_static(b"unread")).recorded(left.of_body()));
    let failed = journal.begin(request("http://a.test/none", false, None));
    failed.failed("No such host", "The website");
    drop(ProxyBody::empty().recorded(failed.of_body()));
    let requests = journal.requests();
    assert_eq!(
        (requests[1].end, requests[2].end),
        (ResponseEnd::Left, ResponseEnd::Complete)
    );
    assert_eq!(requests[2].source, Source::Failed);
}

#[tokio::test]
async fn a_kept_journal_goes_on_after_a_restart_and_an_unwanted_file_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let journal = Journal::open(home.path(), true).await;
    journal
        .begin(request("http://a.test/", true, None))
        .failed("no", "you");
    journal.begin(request("http://b.test/", true, None));
    journal.write(false).await;
    let before = journal.requests();
    drop(journal);

    let journal = Journal::open(home.path(), true).await;
    let after = journal.requests();
    assert_eq!((after.len(), &after[0].url), (2, &before[0].url));
    assert_eq!(after[0].failure, before[0].failure);
    assert_eq!(
        journal.begin(request("http://c.test/", true, None)).page(),
        Some(2)
    );
    journal.forget(Some("b.test")).await;
    drop(journal);
    let urls: Vec<_> = Journal::open(home.path(), true).await.requests();
    let urls: Vec<_> = urls.iter().map(|record| record.url.as_str()).collect();
    assert_eq!(urls, ["http://a.test/", "http://c.test/"]);

    assert!(Journal::open(home.path(), false).await.requests().is_empty());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
