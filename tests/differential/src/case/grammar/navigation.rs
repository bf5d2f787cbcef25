//! Redirects, ranges, downloads and refreshes: a status with the fields that belong to it.
use super::{Change, Group, Make, Mode, Production};
use crate::random::Random;

const LOCATIONS: &[(&str, &[u8])] = &[
    ("redirect/path", b"Location: /ok"),
    ("redirect/relative", b"Location: ../../../ok"),
    ("redirect/empty", b"Location:"),
    ("redirect/spaces-around", b"Location:   /ok   "),
    ("redirect/fragment", b"Location: /ok#part"),
    ("redirect/space", b"Location: /ok here"),
    ("redirect/utf8", b"Location: /ok/\xc3\xa9"),
    ("redirect/latin1", b"Location: /ok/\xe9"),
    ("redirect/same-scheme", b"Location: http:/ok"),
    ("redirect/three-slashes", b"Location: ///ok"),
    ("redirect/backslash", b"Location: \\ok"),
    ("redirect/only-query", b"Location: ?ok"),
    ("redirect/only-scheme", b"Location: http://"),
    ("redirect/invalid-host", b"Location: http://%zz/"),
    ("redirect/data", b"Location: data:text/plain,x"),
    ("redirect/script", b"Location: javascript:1"),
    ("redirect/control", b"Location: /ok\x01"),
    ("redirect/delete", b"Location: /ok\x7f"),
    ("redirect/tab", b"Location: /ok\tx"),
    ("redirect/markup", b"Location: /ok?<b>\"x\"</b>"),
    ("redirect/invalid-port", b"Location: http://ok.test:99999/"),
    ("redirect/two-lines-equal", b"Location: /ok\r\nLocation: /ok"),
    ("redirect/two-lines-different", b"Location: /ok\r\nLocation: /ok2"),
    ("redirect/folded", b"Location:\r\n /ok"),
    ("redirect/space-before-colon", b"Location : /ok"),
    ("redirect/percent", b"Location: /ok%"),
    ("redirect/long", b"Location: /ok?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("redirect/with-cookie", b"Location: /ok\r\nSet-Cookie: k{seed}=1"),
    ("redirect/none", b"X-None: 1"),
];

const FIELDS: &[(&str, &[u8])] = &[
    ("navigation/location-on-200", b"Location: /ok"),
    ("navigation/refresh", b"Refresh: 0;url=/ok"),
    ("navigation/refresh-odd", b"Refresh: 0, URL='/ok"),
    (
        "navigation/attachment",
        b"Content-Disposition: attachment; filename=\"a b.txt\"",
    ),
    (
        "navigation/disposition-inline",
        b"Content-Disposition: inline; filename=\xc3\xa9.txt",
    ),
    ("navigation/disposition-odd", b"Content-Disposition: filename=x"),
    (
        "navigation/dispositions-different",
        b"Content-Disposition: inline\r\nContent-Disposition: attachment",
    ),
    ("navigation/content-location", b"Content-Location: /elsewhere/"),
    ("navigation/content-language", b"Content-Language: xx, \xe9"),
    ("navigation/content-range-on-200", b"Content-Range: bytes 0-9/100"),
    ("navigation/accept-ranges-odd", b"Accept-Ranges: foo"),
];

const PARTS: &[(&str, &[u8])] = &[
    ("range/unasked", b"Content-Range: bytes 0-9/100"),
    ("range/middle", b"Content-Range: bytes 50-65/100"),
    ("range/unknown-length", b"Content-Range: bytes 0-9/*"),
    ("range/odd", b"Content-Range: bytes 9-0/5"),
    ("range/other-unit", b"Content-Range: items 0-9/100"),
    ("range/no-numbers", b"Content-Range: bytes"),
    ("range/none", b"X-None: 1"),
    (
        "range/multipart",
        b"Content-Type: multipart/byteranges; boundary=x",
    ),
];

fn redirect(random: &mut Random, line: &[u8]) -> Vec<Vec<u8>> {
    let status = random.pick(&[
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
        "300 Choices",
        "305 Proxy",
        "309 None",
    ]);
    vec![format!("HTTP/1.1 {status}").into_bytes(), line.to_vec()]
}

/// A status line that goes with a field.
pub(super) fn with_status(random: &mut Random, kind: &str, line: Vec<u8>) -> Change {
    let lines = if kind.starts_with("redirect/") {
        // Most redirects are those that browsers follow.
        if random.one_in(4) {
            redirect(random, &line)
        } else {
            vec![b"HTTP/1.1 302 Found".to_vec(), line]
        }
    } else {
        vec![b"HTTP/1.1 206 Partial Content".to_vec(), line]
    };
    Change::StatusAndFields(lines)
}

pub(super) fn productions() -> Vec<Production> {
    let with_status = LOCATIONS.iter().chain(PARTS);
    let mut all: Vec<_> = with_status
        .map(|(kind, line)| Production::new(Group::Navigation, kind, Make::StatusAndField(line)))
        .collect();
    let fields = FIELDS.iter();
    all.extend(
        fields
            .map(|(kind, line)| Production::new(Group::Field, kind, Make::Field(line)).seen_by(Mode::Frame)),
    );
    all
}
