//! Bodies that the agent holds, and equal bodies of several URLs.
use longhaul_page::Destination;
use longhaul_session::EntryBody;

use super::{
    answer, bodies, fetch_all, id, known, next_push, nothing_held, partition_of, plan_of, reference, url,
};
use crate::plan::*;

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
