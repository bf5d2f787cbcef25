mod duplicates;
mod inline_backgrounds;
mod requests;

use std::collections::VecDeque;

use http::{HeaderMap, HeaderValue, StatusCode};
use longhaul_cache::{Owner, Partition};
use longhaul_gateway_core::admin::page_load_counters::Taken;
use longhaul_http::site::SchemefulSite;
use longhaul_page::{Destination, Importance};
use longhaul_session::{EntryBody, FetchId, PageId, Scope, Used};
use longhaul_types::{ClientId, PublicKey};
use longhaul_webcache::{Audience, OriginSize};

use super::*;
use crate::push_body::PushBody;

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

pub(super) fn answer(body: AnswerBody) -> Answer {
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
        awaits_body: false,
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
        Record::Entry(_)
        | Record::Withdrawn { .. }
        | Record::Failed(_)
        | Record::Absent(_)
        | Record::Planned => None,
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
            other @ (Record::Head(_)
            | Record::Withdrawn { .. }
            | Record::Failed(_)
            | Record::Absent(_)
            | Record::Planned) => panic!("{other:?}"),
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
fn blocking_objects_are_sent_first_and_then_requested_images() {
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
    assert_eq!(plan.requested(&[0, 4].map(id)), [], "images keep their class");
    let pushed: Vec<_> = std::iter::from_fn(|| next_push(&mut plan)).collect();
    assert_eq!(pushed, [2, 4, 0, 1, 3].map(id));
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
            Record::Entry(_) | Record::Head(_) | Record::Failed(_) | Record::Absent(_) | Record::Planned => {
                None
            }
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
