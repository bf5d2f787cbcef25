//! Requests of the browser: promises, and bodies that are pushed or fetched again.
use longhaul_http::{request_context::identity_key, vary};
use longhaul_page::Destination;
use longhaul_session::Scope;

use super::{answer, fetch_all, headers, id, known, next_push, nothing_held, plan_of, source};
use crate::plan::*;

/// A field of browsers, which take decoded bodies.
const CODINGS: (&str, &str) = ("accept-encoding", "gzip, deflate");

#[test]
fn requests_are_promised_their_own_entries() {
    let mut plan = plan_of(&[
        ("http://a.test/1", Destination::Image),
        ("http://a.test/2", Destination::Image),
        ("http://a.test/3", Destination::Image),
    ]);
    let request = headers(&[CODINGS, ("cookie", "a=1"), ("accept", "x")]);
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
        cookie: identity_key(&request),
        ..answer(known(b"2"))
    };
    plan.answered(id(1), mine, nothing_held);
    plan.withdraw(id(2), Withdrawal::Private);

    let other_cookie = headers(&[CODINGS, ("cookie", "a=2"), ("accept", "x")]);
    assert_eq!(
        plan.promise(id(0), &headers(&[CODINGS, ("accept", "y")])),
        Match::No
    );
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
        CODINGS,
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
        &[CODINGS, ("sec-fetch-site", "cross-site"), ("cookie", "a=1")][..],
        &[CODINGS, ("referer", "http://evil.test/"), ("cookie", "a=1")],
        &[CODINGS, ("origin", "null"), ("cookie", "a=1")],
        &[CODINGS, ("sec-fetch-site", "same-origin")],
        // A client that negotiates codings itself.
        &[("cookie", "a=1")],
    ] {
        assert_eq!(plan.promise(id(0), &headers(other)), Match::No, "{other:?}");
    }
    assert_eq!(
        plan.promise(id(0), &headers(&[CODINGS, ("cookie", "a=1")])),
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
    let mut plan = plan_of(&[("http://a.test/1.json", Destination::Other)]);
    fetch_all(&mut plan);
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    let attempt = plan.next_push().unwrap();
    assert_eq!(*attempt.class.borrow(), 3);
    let risen = plan.requested(&[id(0)]);
    assert_eq!(risen, [(id(0), 2)]);
    assert_eq!(plan.requested(&[id(0)]), [], "an entry rises once");
    for (entry, class) in risen {
        plan.set_push_class(entry, class);
    }
    assert_eq!(*attempt.class.borrow(), 2);
}
