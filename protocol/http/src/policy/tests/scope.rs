use super::*;

fn of(status: u16, fields: &[(&'static str, &'static str)]) -> Option<Scope> {
    scope(
        &GET,
        &map(&[]),
        StatusCode::from_u16(status).unwrap(),
        &map(fields),
        NOW,
    )
}

#[test]
fn scopes_follow_status_and_fields() {
    let lasting = ("cache-control", "max-age=60");
    let old = ("last-modified", "Sat, 05 Nov 1994 08:49:37 GMT");
    for (status, fields, expected) in [
        (200, &[lasting][..], Scope::Reusable),
        (200, &[old], Scope::Reusable),
        (301, &[lasting], Scope::Reusable),
        (404, &[lasting], Scope::Reusable),
        (200, &[lasting, ("vary", "Accept")], Scope::Reusable),
        (
            200,
            &[lasting, ("content-disposition", "attachment")],
            Scope::Reusable,
        ),
        (200, &[], Scope::ThisPage),
        (200, &[lasting, ("set-cookie", "a=1")], Scope::ThisPage),
        (200, &[("cache-control", "private, max-age=60")], Scope::ThisPage),
        (200, &[("cache-control", "no-store, max-age=60")], Scope::ThisPage),
        (200, &[("cache-control", "no-cache, max-age=60")], Scope::ThisPage),
        (200, &[lasting, ("age", "60")], Scope::ThisPage),
        (302, &[], Scope::ThisPage),
        (404, &[], Scope::ThisPage),
        (500, &[lasting], Scope::Reusable),
        (204, &[], Scope::ThisPage),
    ] {
        assert_eq!(of(status, fields), Some(expected), "{status} {fields:?}");
    }
}

#[test]
fn responses_that_no_request_may_use_have_no_scope() {
    for status in [100, 101, 103, 206, 304, 401, 407, 408, 421, 425, 426] {
        assert_eq!(of(status, &[("cache-control", "max-age=60")]), None, "{status}");
    }
    for field in [
        ("vary", "Accept, *"),
        ("www-authenticate", "NTLM"),
        ("content-range", "bytes 0-1/2"),
        ("content-type", "text/event-stream"),
    ] {
        assert_eq!(of(200, &[field]), None, "{field:?}");
    }
    let response = map(&[("cache-control", "max-age=60")]);
    assert_eq!(scope(&Method::POST, &map(&[]), OK, &response, NOW), None);
    for field in [("range", "bytes=0-"), ("authorization", "Basic eA==")] {
        assert_eq!(scope(&GET, &map(&[field]), OK, &response, NOW), None, "{field:?}");
    }
    let no_store = map(&[("cache-control", "no-store")]);
    assert_eq!(scope(&GET, &no_store, OK, &response, NOW), Some(Scope::ThisPage));
}
