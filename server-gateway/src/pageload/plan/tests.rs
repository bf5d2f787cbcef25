use std::collections::VecDeque;

use http::{HeaderMap, HeaderValue, StatusCode};
use longhaul_cache::{Owner, Partition};
use longhaul_http::{request_context::identity_key, site::SchemefulSite, vary};
use longhaul_page::{Destination, Importance};
use longhaul_session::{EntryBody, FetchId, PageId, Scope, Used};
use longhaul_types::{ClientId, PublicKey};

use super::*;
use longhaul_webcache::{Audience, OriginSize};

use crate::pageload::{counters::Taken, push_body::PushBody};

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn reference(text: &str, destination: Destination) -> Reference {
    Reference::new(url(text), destination)
}

fn plan() -> Plan {
    Plan::new(
        url("http://a.test/dir/page"),
        PlanLimits::default(),
        BTreeMap::new(),
    )
}

fn plan_of(list: &[(&str, Destination)]) -> Plan {
    let mut plan = plan();
    plan.found(
        list.iter()
            .map(|(text, destination)| reference(text, *destination)),
        None,
    );
    plan
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

fn answer(body: AnswerBody) -> Answer {
    Answer {
        status: StatusCode::OK,
        headers: headers(&[("content-type", "text/plain")]),
        scope: Scope::Reusable,
        vary: None,
        cookie: None,
        partition: Some(partition_of("http://a.test/")),
        shape: 0,
        delta_key: None,
        audience: Audience::RequestingDevice,
        origin_size: OriginSize::none(),
        is_from_cache: false,
        body,
    }
}

fn partition_of(site: &str) -> Partition {
    let owner = Owner::of_device(&PublicKey::from_bytes([1; 32]), ClientId::OWNER);
    Partition::of_site(owner, SchemefulSite::of_url(site).unwrap())
}

fn source() -> PushBody {
    PushBody::Arriving(VecDeque::new(), None)
}

fn arriving(length: Option<u64>) -> AnswerBody {
    AnswerBody::Arriving {
        length,
        source: source(),
    }
}

fn next_push(plan: &mut Plan) -> Option<EntryId> {
    plan.next_push().map(|attempt| attempt.entry)
}

fn known(body: &[u8]) -> AnswerBody {
    AnswerBody::Complete {
        hash: ContentHash::of(body),
        length: body.len() as u64,
        source: source(),
    }
}

fn id(number: u32) -> EntryId {
    EntryId::new(number)
}

fn fetch_all(plan: &mut Plan) -> Vec<EntryId> {
    std::iter::from_fn(|| plan.next_fetch(false)).collect()
}

fn nothing_held(_: &ContentHash) -> bool {
    false
}

fn bodies(records: &[Record]) -> Vec<(EntryId, EntryBody)> {
    let heads = records.iter().filter_map(|record| match record {
        Record::Head(head) => Some((head.entry, head.body)),
        Record::Entry(_) | Record::Withdrawn { .. } | Record::Planned => None,
    });
    heads.collect()
}

#[test]
fn a_url_is_one_entry_and_short_within_the_pages_origin() {
    let mut plan = plan_of(&[
        ("http://a.test/x.css?v=1", Destination::Style),
        ("http://b.test/x.js", Destination::Script),
        ("http://a.test/x.css?v=1", Destination::Style),
        ("http://a.test/dir/page", Destination::Image),
        ("https://a.test/tunnelled.png", Destination::Image),
        ("http://a.test:8080/x.png", Destination::Image),
    ]);
    let entries: Vec<_> = plan
        .take_records()
        .into_iter()
        .map(|record| match record {
            Record::Entry(entry) => (entry.url, entry.destination),
            other @ (Record::Head(_) | Record::Withdrawn { .. } | Record::Planned) => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ("/x.css?v=1", 2),
        ("http://b.test/x.js", 4),
        ("http://a.test:8080/x.png", 5),
    ];
    assert_eq!(
        entries,
        expected.map(|(url, destination)| (url.to_owned(), destination))
    );
    assert_eq!(plan.find("http://b.test/x.js"), Some(id(1)));
    assert!(!plan.has_records());
}

#[test]
fn entries_and_depth_are_bounded() {
    let limits = PlanLimits {
        entries: 10,
        depth: 3,
        ..PlanLimits::default()
    };
    let mut plan = Plan::new(url("http://a.test/"), limits, BTreeMap::new());
    let sheet = |n: usize| reference(&format!("http://a.test/{n}.css"), Destination::Style);
    plan.found([sheet(0)], None);
    for n in 1..6 {
        let last = EntryId::at(plan.entries().count() - 1).unwrap();
        plan.found([sheet(n)], Some(last));
    }
    assert_eq!(
        plan.entries().count(),
        3,
        "the page, and what it refers to, and so on"
    );
    plan.found(
        (0..100).map(|n| reference(&format!("http://a.test/{n}.png"), Destination::Image)),
        None,
    );
    assert_eq!(plan.entries().count(), 10);
}

#[test]
fn blocking_objects_are_sent_first_and_requested_ones_before_them() {
    let mut plan = plan_of(&[
        ("http://a.test/1.png", Destination::Image),
        ("http://a.test/2.png", Destination::Image),
        ("http://a.test/3.css", Destination::Style),
        ("http://a.test/4.ico", Destination::Icon),
        ("http://a.test/5.png", Destination::Image),
    ]);
    assert_eq!(plan.next_fetch(true), Some(id(2)));
    assert_eq!(plan.next_fetch(true), None);
    plan.requested(&[4, 4, 99].map(id));
    assert_eq!(plan.next_fetch(true), Some(id(4)));
    assert_eq!(fetch_all(&mut plan), [0, 1, 3].map(id));
    for number in 0..5 {
        assert_eq!(
            plan.answered(id(number), answer(known(&number.to_le_bytes())), nothing_held),
            Placement::Push
        );
    }
    assert_eq!(
        plan.requested(&[0, 4].map(id)),
        [(id(0), 2)],
        "an entry rises once"
    );
    let pushed: Vec<_> = std::iter::from_fn(|| next_push(&mut plan)).collect();
    assert_eq!(pushed, [4, 0, 2, 1, 3].map(id));
}

#[test]
fn a_second_reference_can_make_an_entry_urgent() {
    let mut plan = plan_of(&[
        ("http://a.test/1.png", Destination::Image),
        ("http://a.test/2.png", Destination::Image),
    ]);
    let urgent = Reference {
        importance: Importance::Blocking,
        ..reference("http://a.test/2.png", Destination::Image)
    };
    plan.found([urgent], None);
    assert_eq!(fetch_all(&mut plan), [1, 0].map(id));
}

#[test]
fn held_bodies_and_duplicates_are_not_sent() {
    let held = ContentHash::of(b"held");
    let before = [("/1", ContentHash::of(b"held")), ("/2", ContentHash::of(b"old"))];
    let before = before.map(|(url, hash)| (url.to_owned(), hash)).into();
    let mut plan = Plan::new(url("http://a.test/"), PlanLimits::default(), before);
    plan.found(
        (1..7).map(|n| reference(&format!("http://a.test/{n}"), Destination::Image)),
        None,
    );
    fetch_all(&mut plan);
    plan.take_records();
    let holds = |hash: &ContentHash| *hash == held;
    let placed: Vec<_> = [
        known(b"held"),
        known(b"held"),
        known(b"new"),
        known(b"new"),
        AnswerBody::None,
    ]
    .into_iter()
    .zip(EntryId::all())
    .map(|(body, entry)| plan.answered(entry, answer(body), holds))
    .collect();
    use Placement::{NoBody, Nothing, Push};
    assert_eq!(placed, [Nothing, Nothing, Push, Nothing, NoBody]);
    let mut hash = [0; 16];
    hash.copy_from_slice(&held.as_bytes()[..16]);
    assert_eq!(
        bodies(&plan.take_records()),
        [
            (id(0), EntryBody::AsBefore),
            (id(1), EntryBody::Held { hash }),
            (id(2), EntryBody::Pushed { length: Some(3) }),
            (id(3), EntryBody::SameAs { entry: id(2) }),
            (id(4), EntryBody::None),
        ]
    );
    // The base of the next manifest contains all of them.
    let hashes = plan.hashes();
    assert_eq!(hashes.len(), 4);
    assert_eq!(hashes.get("/4"), Some(&ContentHash::of(b"new")));
}

#[test]
fn duplicates_are_not_sent_in_any_order_of_responses() {
    let urls: Vec<String> = (0..3).map(|n| format!("http://a.test/{n}")).collect();
    let references: Vec<_> = urls
        .iter()
        .map(|url| (url.as_str(), Destination::Image))
        .collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut plan = plan_of(&references);
        fetch_all(&mut plan);
        plan.take_records();
        for entry in order.map(id) {
            plan.answered(entry, answer(known(b"same")), nothing_held);
        }
        let heads = bodies(&plan.take_records());
        assert_eq!(
            heads[0],
            (id(0), EntryBody::Pushed { length: Some(4) }),
            "{order:?}"
        );
        for (entry, body) in &heads[1..] {
            assert!(
                matches!(body, EntryBody::SameAs { entry: same } if same < entry),
                "{order:?}: {heads:?}"
            );
        }
        let pushed: Vec<_> = std::iter::from_fn(|| next_push(&mut plan)).collect();
        assert_eq!(pushed, [id(0)], "{order:?}");
    }
}

#[test]
fn a_body_fetched_for_one_site_is_no_alias_for_another() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
        ("http://a.test/3", Destination::Image),
        ("http://a.test/4", Destination::Image),
    ]);
    fetch_all(&mut plan);
    let partitions = [
        Some(partition_of("http://a.test/")),
        Some(partition_of("http://b.test/")),
        None,
        None,
    ];
    for (entry, partition) in EntryId::all().zip(partitions) {
        let answer = Answer {
            partition,
            ..answer(known(b"x"))
        };
        let placement = plan.answered(entry, answer, nothing_held);
        assert_eq!(placement, Placement::Push, "{entry}");
    }
}

#[test]
fn a_written_head_does_not_change() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
    ]);
    fetch_all(&mut plan);
    plan.answered(id(1), answer(known(b"x")), nothing_held);
    plan.take_records();
    assert_eq!(
        plan.answered(id(0), answer(known(b"x")), nothing_held),
        Placement::Push
    );
}

#[test]
fn an_interrupted_body_is_no_alias() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
    ]);
    fetch_all(&mut plan);
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    assert_eq!(next_push(&mut plan), Some(id(0)));
    plan.pushed(id(0), 0, 10, PushProgress::Broken);
    assert_eq!(
        plan.answered(id(1), answer(known(b"x")), nothing_held),
        Placement::Push
    );
}

#[test]
fn too_large_entries_are_withdrawn() {
    let limits = PlanLimits {
        bytes: 100,
        body: 60,
        ..PlanLimits::default()
    };
    let mut plan = Plan::new(url("http://a.test/"), limits, BTreeMap::new());
    plan.found(
        (0..4).map(|n| reference(&format!("http://a.test/{n}"), Destination::Image)),
        None,
    );
    fetch_all(&mut plan);
    plan.take_records();
    let coming = |length| answer(arriving(length));
    assert_eq!(
        plan.answered(id(0), coming(Some(61)), nothing_held),
        Placement::Nothing
    );
    assert_eq!(
        plan.answered(id(1), coming(Some(60)), nothing_held),
        Placement::Push
    );
    assert_eq!(
        plan.answered(id(2), coming(Some(41)), nothing_held),
        Placement::Nothing
    );
    assert_eq!(plan.answered(id(3), coming(None), nothing_held), Placement::Push);
    assert!(plan.grown(id(1), 60, 60), "its length is known and counted");
    assert!(plan.grown(id(3), 40, 40));
    assert!(!plan.grown(id(3), 41, 1));
    assert!(!plan.grown(id(3), 42, 1));
    let withdrawn: Vec<_> = plan
        .take_records()
        .into_iter()
        .filter_map(|record| match record {
            Record::Withdrawn { entry, reason } => Some((entry, reason)),
            Record::Entry(_) | Record::Head(_) | Record::Planned => None,
        })
        .collect();
    assert_eq!(
        withdrawn,
        [
            (id(0), Withdrawal::TooLarge),
            (id(2), Withdrawal::Budget),
            (id(3), Withdrawal::Budget)
        ]
    );
}

#[test]
fn the_plan_is_complete_when_all_documents_were_scanned() {
    let mut plan = plan_of(&[
        ("http://a.test/1.css", Destination::Style),
        ("http://a.test/2.html", Destination::Frame),
    ]);
    plan.page_searched();
    assert!(plan.is_searching());
    fetch_all(&mut plan);
    plan.entry_searched(id(0));
    plan.entry_searched(id(0));
    assert!(plan.is_searching(), "the frame may name more");
    plan.withdraw(id(1), Withdrawal::Failed);
    assert!(!plan.is_searching() && plan.has_open());
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    assert!(!plan.has_open());
    plan.take_records();
    plan.close();
    plan.close();
    assert_eq!(plan.take_records(), [Record::Planned]);
    plan.found([reference("http://a.test/late", Destination::Image)], None);
    assert!(!plan.has_records());

    let mut empty = plan_of(&[]);
    empty.close();
    assert!(!empty.has_records(), "no sub-resources, no manifest");
}

#[test]
fn requests_are_promised_their_own_entries() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
        ("http://a.test/3", Destination::Image),
    ]);
    let request = headers(&[("cookie", "a=1"), ("accept", "x")]);
    assert_eq!(plan.promise(id(0), &request), Match::Later);
    fetch_all(&mut plan);
    assert_eq!(plan.promise(id(0), &request), Match::Later);
    let varying = headers(&[("vary", "accept, accept-encoding")]);
    let own = Answer {
        vary: vary::key(&varying, &request),
        headers: varying,
        ..answer(known(b"1"))
    };
    plan.answered(id(0), own, nothing_held);
    let mine = Answer {
        scope: Scope::ThisPage,
        cookie: vary::cookie_key(&request),
        ..answer(known(b"2"))
    };
    plan.answered(id(1), mine, nothing_held);
    plan.withdraw(id(2), Withdrawal::Private);

    let other_cookie = headers(&[("cookie", "a=2"), ("accept", "x")]);
    assert_eq!(plan.promise(id(0), &headers(&[("accept", "y")])), Match::No);
    assert_eq!(plan.promise(id(0), &other_cookie), Match::Promised);
    assert_eq!(plan.promise(id(0), &request), Match::Promised);
    assert_eq!(plan.promise(id(1), &other_cookie), Match::No);
    assert_eq!(plan.promise(id(1), &request), Match::Promised);
    assert_eq!(plan.promise(id(1), &request), Match::No, "once");
    assert_eq!(plan.promise(id(2), &request), Match::No);
    assert_eq!(plan.promise(id(3), &request), Match::No);
}

#[test]
fn other_requesters_are_not_promised_the_pages_entries() {
    let mut plan = plan_of(&[("http://a.test/1", Destination::Image)]);
    let asked = headers(&[
        ("sec-fetch-site", "same-origin"),
        ("referer", "http://a.test/page"),
        ("cookie", "a=1"),
    ]);
    fetch_all(&mut plan);
    plan.predicted(id(0), &asked, PredictedCookies::Complete);
    let mine = Answer {
        cookie: identity_key(&asked),
        ..answer(known(b"1"))
    };
    plan.answered(id(0), mine, nothing_held);
    for other in [
        &[("sec-fetch-site", "cross-site"), ("cookie", "a=1")][..],
        &[("referer", "http://evil.test/"), ("cookie", "a=1")],
        &[("origin", "null"), ("cookie", "a=1")],
        &[("sec-fetch-site", "same-origin")],
    ] {
        assert_eq!(plan.promise(id(0), &headers(other)), Match::No, "{other:?}");
    }
    assert_eq!(
        plan.promise(id(0), &headers(&[("cookie", "a=1")])),
        Match::Promised
    );
    assert_eq!(plan.promise(id(0), &asked), Match::Promised);
}

#[test]
fn requested_bodies_are_pushed_again_a_bounded_number_of_times() {
    let mut plan = plan_of(&[("http://a.test/1", Destination::Image)]);
    plan.want(id(0), source());
    assert_eq!(next_push(&mut plan), None, "nothing is promised yet");
    fetch_all(&mut plan);
    plan.answered(id(0), answer(known(b"x")), |_| true);
    for repeats in 1..=PlanLimits::default().repeats {
        assert_eq!(next_push(&mut plan), None);
        plan.want(id(0), source());
        let attempt = plan.next_push().unwrap();
        assert_eq!((attempt.entry, attempt.repeats), (id(0), repeats));
        assert_eq!(attempt.response.hash, Some(ContentHash::of(b"x")));
        plan.pushed(id(0), repeats, 5, PushProgress::Sent);
        plan.pushed(id(0), repeats, 0, PushProgress::Delivered);
    }
    plan.take_records();
    plan.want(id(0), source());
    assert_eq!(next_push(&mut plan), None);
    let failed = Record::Withdrawn {
        entry: id(0),
        reason: Withdrawal::Failed,
    };
    assert_eq!(plan.take_records(), [failed]);
}

#[test]
fn the_late_end_of_a_push_does_not_end_the_next_one() {
    let mut plan = plan_of(&[("http://a.test/1", Destination::Image)]);
    fetch_all(&mut plan);
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    assert_eq!(next_push(&mut plan), Some(id(0)));
    plan.pushed(id(0), 0, 5, PushProgress::Sent);
    plan.want(id(0), source());
    assert_eq!(next_push(&mut plan), Some(id(0)));
    plan.pushed(id(0), 0, 7, PushProgress::Broken);
    assert_eq!(plan.pushing(), 1);
    assert_eq!(plan.get(id(0)).unwrap().pushed, 12, "its bytes count");
    plan.pushed(id(0), 1, 5, PushProgress::Sent);
    assert_eq!((plan.pushing(), plan.unacknowledged()), (0, 1));
}

#[test]
fn a_body_that_the_cache_lost_is_fetched_again_once() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
    ]);
    plan.refetch(id(0));
    fetch_all(&mut plan);
    assert_eq!(plan.next_refetch(), None, "nothing is promised yet");
    plan.answered(id(0), answer(known(b"x")), |_| true);
    plan.answered(id(1), answer(known(b"y")), |_| true);
    for entry in [1, 0, 1].map(id) {
        plan.refetch(entry);
    }
    let due: Vec<_> = std::iter::from_fn(|| plan.next_refetch()).collect();
    assert_eq!(due, [0, 1].map(id));
}

#[test]
fn a_class_that_rises_reaches_the_open_push() {
    let mut plan = plan_of(&[("http://a.test/1.png", Destination::Image)]);
    fetch_all(&mut plan);
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    let attempt = plan.next_push().unwrap();
    for (entry, class) in plan.requested(&[id(0)]) {
        plan.set_push_class(entry, class);
    }
    assert_eq!(*attempt.class.borrow(), 2);
}

#[test]
fn taken_and_wasted_bytes_are_distinguished() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
        ("http://a.test/3", Destination::Image),
    ]);
    fetch_all(&mut plan);
    for (number, bytes) in [(0_u8, 100), (1, 30)] {
        let entry = id(number.into());
        plan.answered(entry, answer(known(&[1, number])), nothing_held);
        plan.next_push();
        plan.pushed(entry, 0, bytes, PushProgress::Sent);
    }
    let page = PageId::of(FetchId::FIRST);
    let taken = plan.taken(&Used::new(page, 3, |entry| entry != id(1)));
    let expected = Taken {
        taken_bytes: 100,
        taken_objects: 1,
        wasted_bytes: 30,
    };
    assert_eq!(taken, expected);
}
