use super::*;

fn of(request: &[(&'static str, &'static str)], response: &[(&'static str, &'static str)]) -> Storage {
    storage(&GET, &map(request), OK, &map(response))
}

#[test]
fn storage_follows_response_fields() {
    use Storage::{No, Private, Shared};
    for (response, expected) in [
        (&[][..], Private),
        (&[("cache-control", "max-age=60")], Shared),
        (&[("cache-control", "public")], Shared),
        (&[("cache-control", "s-maxage=60")], Shared),
        (&[("expires", "Mon, 07 Nov 1994 08:49:37 GMT")], Shared),
        (&[("cache-control", "max-age=0")], Private),
        (&[("cache-control", "s-maxage=0, max-age=60")], Private),
        (&[("cache-control", "public, no-cache")], Private),
        (&[("cache-control", "private, max-age=60")], Private),
        (&[("cache-control", "Private=\"x\", max-age=60")], Private),
        (&[("cache-control", "NO-STORE, max-age=60")], No),
        (&[("cache-control", "x=\"open, no-store")], No),
        (
            &[("cache-control", "max-age=60"), ("cache-control", "no-store")],
            No,
        ),
        (
            &[("cache-control", "public, max-age=60"), ("set-cookie", "a=1")],
            Private,
        ),
        (&[("cache-control", "max-age=60"), ("vary", "*")], No),
        (&[("cache-control", "max-age=60"), ("vary", "Accept")], Shared),
        (&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")], Private),
        (
            &[("cache-control", "max-age=60"), ("content-range", "bytes 0-1/2")],
            No,
        ),
        (&[("content-type", "text/event-stream; charset=utf-8")], No),
        (&[("content-type", "Multipart/X-Mixed-Replace;boundary=x")], No),
    ] {
        assert_eq!(of(&[], response), expected, "{response:?}");
    }
}

#[test]
fn storage_follows_request_fields() {
    use Storage::{No, Private, Shared};
    let lasting = ("cache-control", "max-age=60");
    let public = ("cache-control", "public, max-age=60");
    for (request, response, expected) in [
        (&[("authorization", "Basic eA==")][..], &[public][..], Private),
        (&[("cookie", "a=1")], &[lasting], Private),
        (&[("cookie", "a=1")], &[public], Private),
        (&[("cookie", "a=1")], &[("cache-control", "s-maxage=60")], Private),
        (&[], &[public, ("vary", "Cookie")], Shared),
        (&[("cache-control", "no-store")], &[public], No),
        (&[("x-forwarded-host", "evil.test")], &[public], Private),
        (&[("x-original-url", "/admin")], &[public], Private),
        (&[("range", "bytes=0-")], &[public], Private),
        (&[("if-none-match", "\"x\"")], &[public], Private),
        (&[("cache-control", "max-age=0")], &[public], Shared),
        (&[("cache-control", "max-age=7")], &[public], Private),
        (&[("early-data", "1"), ("via", "1.1 longhaul")], &[public], Shared),
        (&[("early-data", "x")], &[public], Private),
        // A part of the key of what is shared.
        (&[("accept-encoding", "gzip;q=0.123")], &[public], Shared),
        (
            &[
                ("sec-ch-ua", "x"),
                ("sec-fetch-dest", "image"),
                ("user-agent", "x"),
                ("accept", "x"),
            ],
            &[public],
            Shared,
        ),
    ] {
        assert_eq!(of(request, response), expected, "{request:?} {response:?}");
    }
}

#[test]
fn responses_with_cors_permission_for_one_origin_are_private() {
    let public = ("cache-control", "public, max-age=60");
    let request = [("origin", "http://a.test")];
    let with = |fields: &[(&'static str, &'static str)]| of(&request, &[&[public], fields].concat());
    assert_eq!(with(&[]), Storage::Shared);
    assert_eq!(with(&[("access-control-allow-origin", "*")]), Storage::Shared);
    let named = ("access-control-allow-origin", "http://a.test");
    assert_eq!(with(&[named]), Storage::Private);
    assert_eq!(with(&[named, ("vary", "Origin")]), Storage::Shared);
}

#[test]
fn storage_follows_method_and_status() {
    let public = map(&[("cache-control", "public, max-age=60")]);
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        assert_eq!(storage(&method, &map(&[]), OK, &public), Storage::No, "{method}");
    }
    for (status, plain, lasting) in [
        (200, Storage::Private, Storage::Shared),
        (203, Storage::Private, Storage::Shared),
        (301, Storage::Private, Storage::Shared),
        (308, Storage::Private, Storage::Shared),
        (302, Storage::No, Storage::Private),
        (307, Storage::No, Storage::Private),
        (404, Storage::Private, Storage::Private),
        (410, Storage::Private, Storage::Private),
        (201, Storage::No, Storage::Private),
        (299, Storage::No, Storage::Private),
        (400, Storage::No, Storage::Private),
        (403, Storage::No, Storage::Private),
        (500, Storage::No, Storage::Private),
        (503, Storage::No, Storage::Private),
        (599, Storage::No, Storage::Private),
        (999, Storage::No, Storage::Private),
        (206, Storage::No, Storage::No),
        (304, Storage::No, Storage::No),
        (401, Storage::No, Storage::No),
        (412, Storage::No, Storage::No),
        (416, Storage::No, Storage::No),
        (429, Storage::No, Storage::No),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(storage(&GET, &map(&[]), status, &map(&[])), plain, "{status}");
        assert_eq!(storage(&GET, &map(&[]), status, &public), lasting, "{status}");
    }
    // RFC 9111 section 5.2.2.3.
    let understood = map(&[("cache-control", "max-age=60, must-understand")]);
    for (status, expected) in [
        (200, Storage::Shared),
        (503, Storage::Private),
        (599, Storage::No),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(
            storage(&GET, &map(&[]), status, &understood),
            expected,
            "{status}"
        );
    }
}

#[test]
fn agents_store_these_responses() {
    let stores = |status: u16, fields: &[(&'static str, &'static str)]| {
        let status = StatusCode::from_u16(status).unwrap();
        let stores = agent_stores(&GET, &map(&[]), status, &map(fields));
        assert_eq!(stores, agent_stores_pushed(status, &map(fields)));
        stores
    };
    assert!(stores(200, &[]));
    assert!(stores(
        200,
        &[("cache-control", "private, no-cache"), ("set-cookie", "a=1")]
    ));
    assert!(stores(200, &[("vary", "*")]));
    assert!(stores(404, &[]));
    assert!(stores(302, &[("cache-control", "max-age=60")]));
    assert!(!stores(302, &[]));
    assert!(!stores(200, &[("cache-control", "no-store")]));
    assert!(!stores(200, &[("content-type", "text/event-stream")]));
    assert!(!stores(200, &[("content-range", "bytes 0-1/2")]));
    for status in [204, 206, 304, 500] {
        assert!(!stores(status, &[("cache-control", "max-age=60")]), "{status}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert!(!agent_stores(&method, &map(&[]), OK, &map(&[])), "{method}");
    }
    for (control, expected) in [("no-cache", true), ("max-age=0", true), ("No-Store", false)] {
        let request = map(&[("cache-control", control)]);
        assert_eq!(agent_stores(&GET, &request, OK, &map(&[])), expected, "{control}");
    }
}

#[test]
fn only_no_store_forbids_storage() {
    assert!(forbids_storage(&map(&[("cache-control", "public, no-store")])));
    assert!(!forbids_storage(&map(&[("cache-control", "private, no-cache")])));
}
