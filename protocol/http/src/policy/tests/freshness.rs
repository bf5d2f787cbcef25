use super::*;

/// RFC 9111 section 4.2.1.
#[test]
fn freshness_lifetimes_follow_rfc_9111() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let tomorrow = ("expires", "Mon, 07 Nov 1994 08:49:37 GMT");
    let day = 86_400;
    for (fields, of_private, of_shared) in [
        (&[][..], 0, 0),
        (&[("cache-control", "max-age=60")], 60, 60),
        (&[("cache-control", "max-age=60, s-maxage=90")], 60, 90),
        (&[("cache-control", "max-age=\"60\"")], 60, 60),
        (&[("cache-control", "max-age=60, max-age=90")], 60, 60),
        (&[("cache-control", "max-age=60, no-cache")], 0, 0),
        (&[("cache-control", "max-age=60, no-cache=\"Set-Cookie\"")], 0, 0),
        (
            &[("cache-control", "max-age=60, must-revalidate, proxy-revalidate")],
            60,
            60,
        ),
        (
            &[("cache-control", "max-age=60, stale-while-revalidate=100")],
            60,
            60,
        ),
        (&[("cache-control", "max-age=60, private")], 60, 0),
        (&[("cache-control", "max-age=-5")], 0, 0),
        (&[("cache-control", "max-age=60s")], 0, 0),
        (&[("cache-control", "immutable")], 0, 0),
        (&[date, tomorrow], day, day),
        (&[tomorrow], day, day),
        (&[("cache-control", "max-age=60"), date, tomorrow], 60, 60),
        (&[("cache-control", "max-age=0"), date, tomorrow], 0, 0),
        (&[("expires", "0")], 0, 0),
        (
            &[
                ("expires", "-1"),
                ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT"),
            ],
            0,
            0,
        ),
        (&[tomorrow, tomorrow], 0, 0),
        (&[("expires", "Monday, 07-Nov-94 08:49:37 GMT")], day, day),
        (&[("pragma", "no-cache"), tomorrow], 0, 0),
        (&[("pragma", "no-cache"), ("cache-control", "max-age=60")], 60, 60),
        (&[("cache-control", "max-age=60"), ("vary", "*")], 0, 0),
    ] {
        let response = map(fields);
        let lifetime = |freshness: Freshness| freshness.fresh_for(NOW).as_secs();
        assert_eq!(lifetime(private(&response)), of_private, "{fields:?}");
        assert_eq!(lifetime(shared(&response)), of_shared, "{fields:?}");
    }
}

/// RFC 9111 section 4.2.2: a tenth of the time since the last modification, limited to a day.
#[test]
fn heuristics_are_bounded() {
    let lifetime = |age: u64, status: StatusCode| {
        let response = dated(HeaderMap::new(), "last-modified", before(age));
        let freshness = Freshness::of(&HeaderMap::new(), status, &response, NOW, NOW, CacheKind::Private);
        freshness.fresh_for(NOW).as_secs()
    };
    assert_eq!(lifetime(1000, OK), 100);
    assert_eq!(lifetime(400 * 86_400, OK), 86_400);
    assert_eq!(lifetime(1000, StatusCode::NOT_FOUND), 100);
    assert_eq!(lifetime(1000, StatusCode::FOUND), 0);
    let future = dated(HeaderMap::new(), "last-modified", after(1000));
    assert_eq!(private(&future).fresh_for(NOW), Duration::ZERO);
}

/// RFC 9111 section 4.2.3.
#[test]
fn ages_follow_rfc_9111() {
    let lasting = || map(&[("cache-control", "max-age=1000")]);
    let left = |response: &HeaderMap, requested: UnixTime, now: UnixTime| {
        Freshness::of(
            &HeaderMap::new(),
            OK,
            response,
            requested,
            NOW,
            CacheKind::Private,
        )
        .fresh_for(now)
        .as_secs()
    };
    assert_eq!(left(&lasting(), NOW, after(400)), 600);
    assert_eq!(left(&lasting(), NOW, after(1000)), 0);
    // The delay of the response counts, and the age that upstream caches report.
    assert_eq!(left(&lasting(), before(100), NOW), 900);
    let mut aged = lasting();
    aged.insert("age", HeaderValue::from_static("300"));
    assert_eq!(left(&aged, before(100), after(50)), 550);
    // The origin's clock is behind: by RFC 9111 the response appears old.
    assert_eq!(left(&dated(lasting(), "date", before(200)), NOW, NOW), 800);
    assert_eq!(left(&dated(aged.clone(), "date", before(200)), NOW, NOW), 700);
    // The origin's clock is ahead: the response is no younger than on its arrival.
    assert_eq!(left(&dated(lasting(), "date", after(5000)), NOW, NOW), 1000);
    for (age, expected) in [
        ("-5", 0),
        ("x", 0),
        ("1.5", 0),
        ("300;x", 0),
        ("300, 5", 700),
        ("5, x", 995),
        ("", 1000),
    ] {
        aged.insert("age", HeaderValue::from_str(age).unwrap());
        assert_eq!(left(&aged, NOW, NOW), expected, "{age}");
    }
    aged.insert("age", HeaderValue::from_static("99999999999999999999999999"));
    assert_eq!(left(&aged, NOW, after(u64::MAX)), 0);
}

#[test]
fn an_expiry_counts_from_the_origins_clock() {
    let response = dated(
        dated(HeaderMap::new(), "date", after(5000)),
        "expires",
        after(5060),
    );
    assert_eq!(private(&response).fresh_for(NOW).as_secs(), 60);
}

#[test]
fn a_clock_that_was_set_back_makes_responses_stale() {
    let response = map(&[("cache-control", "max-age=1000"), ("etag", "\"a\"")]);
    assert_eq!(private(&response).fresh_for(before(30)).as_secs(), 1000);
    assert_eq!(private(&response).fresh_for(before(3600)), Duration::ZERO);
    assert!(matches!(
        private(&response).reuse(&GET, &map(&[]), before(3600)),
        Reuse::Stale(_)
    ));
}
