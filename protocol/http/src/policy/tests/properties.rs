use proptest::prelude::*;

use super::*;

/// Fields that affect decisions, with values from ordinary to hostile.
fn headers() -> impl Strategy<Value = HeaderMap> {
    let names = prop::sample::select(vec![
        "cache-control",
        "expires",
        "date",
        "age",
        "last-modified",
        "etag",
        "vary",
        "pragma",
        "set-cookie",
        "authorization",
        "cookie",
        "content-type",
        "access-control-allow-origin",
        "origin",
        "if-none-match",
        "if-modified-since",
        "range",
        "www-authenticate",
    ]);
    let directives = prop::sample::select(vec![
        "no-store",
        "no-cache",
        "private",
        "public",
        "max-age=100",
        "s-maxage=100",
        "max-age=0",
        "immutable",
        "must-revalidate",
        "max-age=18446744073709551616",
        "min-fresh=9223372036854775807",
        "max-stale",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "18446744073709551615",
        "\"a\"",
        "W/\"a\"",
        "*",
        "accept, cookie",
        "a=1",
    ]);
    let sane = directives.prop_map(HeaderValue::from_static);
    let hostile = proptest::collection::vec(0x20_u8..=0xff, 0..40)
        .prop_filter_map("a field value", |bytes| HeaderValue::from_bytes(&bytes).ok());
    let value = prop_oneof![4 => sane, 1 => hostile];
    proptest::collection::vec((names, value), 0..8).prop_map(|fields| {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), value));
        fields.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No input and no clock makes a decision panic, and decisions are consistent.
    #[test]
    fn policy_decisions_are_consistent_for_any_input(
        request in headers(),
        response in headers(),
        status in 100_u16..=599,
        times in any::<[u64; 3]>(),
        shared in any::<bool>(),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let [requested, received, now] = times.map(|seconds| UnixTime::new(Duration::from_secs(seconds)));
        let kind = if shared { CacheKind::Shared } else { CacheKind::Private };
        let freshness = Freshness::of(&request, status, &response, requested, received, kind);
        match freshness.reuse(&GET, &request, now) {
            Reuse::Fresh(fields) => {
                prop_assert!(!freshness.fresh_for(now).is_zero());
                prop_assert!(fields.contains_key("age"));
                prop_assert!(!request.contains_key("range") && !request.contains_key("authorization"));
            }
            Reuse::Stale(fields) => prop_assert!(
                fields.contains_key("if-none-match") || fields.contains_key("if-modified-since")
            ),
            Reuse::Forward => {}
        }
        let _ = freshness.after_304(&request, received);
        let stored = storage(&GET, &request, status, &response);
        if stored == Storage::Shared {
            prop_assert!(!response.contains_key("set-cookie") && !request.contains_key("authorization"));
            prop_assert!(!request.contains_key("cookie") && may_share(&request));
            let text = format!("{:?}", response.get_all("cache-control").iter().collect::<Vec<_>>());
            prop_assert!(!text.contains("private") && !text.contains("no-store") && !text.contains("no-cache"));
        }
        if stored == Storage::Shared {
            prop_assert!(agent_stores(&GET, &request, status, &response));
        }
        if scope(&GET, &request, status, &response, received) == Some(Scope::Reusable) {
            prop_assert!(stored != Storage::No);
            prop_assert!(!response.contains_key("set-cookie"));
        }
    }
}
