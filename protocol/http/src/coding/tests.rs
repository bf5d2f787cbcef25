use super::*;
use crate::test_fields::map;

const OK: StatusCode = StatusCode::OK;

#[test]
fn codings_are_listed_in_order() {
    let headers = map(&[
        ("content-encoding", "BR , identity"),
        ("content-encoding", ",X-GZIP"),
    ]);
    assert_eq!(content_codings(&headers), ["br", "gzip"]);
    assert!(content_codings(&map(&[("content-encoding", "identity")])).is_empty());
}

#[test]
fn browsers_ranges_are_requested_in_identity() {
    let sent = |fields: &[(&'static str, &'static str)], path: &str| {
        let mut headers = map(fields);
        set_accept_encoding(&mut headers, path);
        let values = headers.get_all(header::ACCEPT_ENCODING).iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let browser = [("accept-encoding", "gzip"), ("accept-encoding", "Deflate")];
    assert_eq!(sent(&browser, "/"), ["gzip, deflate, br, zstd"]);
    let range = [("accept-encoding", "gzip, deflate"), ("range", "bytes=0-")];
    assert_eq!(sent(&range, "/x"), ["identity"]);
    assert_eq!(sent(&range, "/x.tar.gz"), ["gzip, deflate"]);
    assert_eq!(sent(&[("accept-encoding", "gzip;q=0.5")], "/"), ["gzip;q=0.5"]);
    assert!(sent(&[], "/").is_empty());
}

#[test]
fn only_browsers_take_decoded_bodies() {
    let takes = |fields: &[(&'static str, &'static str)]| takes_decoded(&map(fields));
    let all = ("accept-encoding", "gzip, deflate, br, zstd");
    assert!(takes(&[all]));
    assert!(takes(&[all, ("user-agent", "Mozilla/5.0")]));
    assert!(!takes(&[all, ("user-agent", "python-requests/2.31.0")]));
    assert!(!takes(&[("accept-encoding", "gzip, deflate;q=0")]));
    assert!(!takes(&[("accept-encoding", "gzip")]));
    assert!(!takes(&[]));
}

#[test]
fn clients_that_negotiate_differ_by_what_they_accept() {
    let own = |value| own_negotiation(&map(&[("accept-encoding", value)]));
    assert_eq!(own("gzip, deflate"), None);
    assert_eq!(own("deflate, gzip, br"), None);
    let absent = own_negotiation(&map(&[]));
    assert!(absent.is_some() && absent != own("") && own("") != own("gzip"));
}

#[test]
fn the_coding_plan_follows_request_status_and_codings() {
    let browser = map(&[("accept-encoding", "gzip, deflate")]);
    let gzip = map(&[("content-encoding", "gzip")]);
    assert_eq!(plan(&browser, "/", OK, &map(&[])), CodingPlan::Plain);
    assert_eq!(
        plan(&browser, "/", OK, &gzip),
        CodingPlan::Decode(vec!["gzip".to_owned()])
    );
    assert_eq!(
        plan(&browser, "/", StatusCode::PARTIAL_CONTENT, &gzip),
        CodingPlan::Keep(KeepReason::Partial)
    );
    for list in [
        "gzip, sdch",
        "gzip,",
        ",gzip",
        "identity, gzip",
        "gzip, identity",
        "gzip;q=1",
    ] {
        assert_eq!(
            plan(&browser, "/", OK, &map(&[("content-encoding", list)])),
            CodingPlan::Keep(KeepReason::UnknownCoding),
            "{list}"
        );
    }
    let three = map(&[("content-encoding", "gzip, gzip, gzip")]);
    let decoded = CodingPlan::Decode(vec!["gzip".to_owned(); 3]);
    assert_eq!(plan(&browser, "/", OK, &three), decoded);
    let many = map(&[("content-encoding", "gzip, gzip, gzip, gzip")]);
    assert_eq!(
        plan(&browser, "/", OK, &many),
        CodingPlan::Keep(KeepReason::UnknownCoding)
    );
}

#[test]
fn compressed_files_stay_as_they_are() {
    let browser = map(&[("accept-encoding", "gzip, deflate")]);
    let kept = CodingPlan::Keep(KeepReason::Negotiated);
    let typed = map(&[
        ("content-encoding", "x-gzip"),
        ("content-type", "application/x-gzip; charset=binary"),
    ]);
    assert_eq!(plan(&browser, "/download", OK, &typed), kept);
    let gzip = map(&[("content-encoding", "gzip")]);
    assert_eq!(plan(&browser, "/a.tar.gz?b=c.d", OK, &gzip), kept);
    assert_ne!(plan(&browser, "/gz", OK, &gzip), kept);
    let br = map(&[("content-encoding", "br")]);
    assert_ne!(
        plan(&browser, "/a.br", OK, &br),
        kept,
        "the browser does not accept it"
    );
    assert_eq!(plan(&map(&[]), "/", OK, &br), kept);
}

#[test]
fn the_body_of_a_redirection_is_not_decoded() {
    let browser = map(&[("accept-encoding", "gzip, deflate")]);
    let coded = map(&[("content-encoding", "gzip, br"), ("location", "/x")]);
    assert_eq!(
        plan(&browser, "/", StatusCode::FOUND, &coded),
        CodingPlan::Keep(KeepReason::Negotiated)
    );
    // Browsers show the body of this status.
    assert_eq!(
        plan(&browser, "/", StatusCode::MULTIPLE_CHOICES, &coded),
        CodingPlan::Decode(vec!["gzip".to_owned(), "br".to_owned()])
    );
}

#[test]
fn no_transform_is_honoured_where_the_browser_can_decode() {
    let browser = map(&[("accept-encoding", "gzip, deflate")]);
    let gzip = map(&[
        ("content-encoding", "gzip"),
        ("cache-control", "public, No-Transform"),
    ]);
    assert_eq!(
        plan(&browser, "/", OK, &gzip),
        CodingPlan::Keep(KeepReason::NoTransform)
    );
    let br = map(&[("content-encoding", "br"), ("cache-control", "no-transform")]);
    assert_eq!(
        plan(&browser, "/", OK, &br),
        CodingPlan::Decode(vec!["br".to_owned()])
    );
}

#[test]
fn accept_encoding_weights() {
    let accepts = |value: &'static str, coding: &str| accepts(&map(&[("accept-encoding", value)]), coding);
    assert!(accepts("gzip", "gzip"));
    assert!(accepts("x-gzip", "gzip"));
    assert!(!accepts("x-gzip", "br") && !accepts("br", "gzip"));
    assert!(accepts("*", "br"));
    assert!(!accepts("*;q=0", "br"));
    assert!(!accepts("*, br; Q=0.000", "br"));
    assert!(!accepts("identity", "br"));
}

#[test]
fn decoding_removes_the_fields_of_the_coded_bytes_only() {
    let mut headers = map(&[
        ("content-encoding", "gzip"),
        ("content-length", "10"),
        ("content-md5", "x"),
        ("content-digest", "sha-256=:x:"),
        ("repr-digest", "sha-256=:x:"),
        ("digest", "sha-256=x"),
        ("accept-ranges", "bytes"),
        ("etag", "\"abc\""),
        ("vary", "Accept-Encoding"),
        ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ]);
    describe_decoded(&mut headers, None);
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["etag", "last-modified", "vary"]);
    assert_eq!(headers[header::ETAG], "\"abc\"");
    describe_decoded(&mut headers, Some(77));
    assert_eq!(headers[header::CONTENT_LENGTH], "77");
}
