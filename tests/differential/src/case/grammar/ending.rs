//! Line ends, cuts, the end of the connection, and pieces.
use super::{super::message::End, Always, Change, Group, Make, Production};
use crate::random::Random;

const FORMS: &[(&str, Always)] = &[
    ("form/bare-line-feeds", || Change::LineEnd(b"\n".to_vec())),
    ("form/two-carriage-returns", || {
        Change::LineEnd(b"\r\r\n".to_vec())
    }),
    ("form/bare-carriage-returns", || Change::LineEnd(b"\r".to_vec())),
    ("form/head-ends-in-last-line", || Change::HeadCut(2)),
    ("form/head-ends-in-last-line-end", || Change::HeadCut(1)),
    ("form/head-ends-after-last-value", || Change::HeadCut(4)),
    ("form/head-ends-in-a-value", || Change::HeadCut(6)),
    ("form/head-ends-early", || Change::HeadCut(30)),
];

const ENDS: &[(&str, Always)] = &[
    ("end/keep", || Change::End(End::Keep)),
    ("end/reset", || Change::End(End::Reset)),
    ("end/abrupt", || Change::End(End::CloseAbruptly)),
    ("end/pieces-of-1", || Change::Pieces(1)),
    ("end/pieces-of-7", || Change::Pieces(7)),
    ("end/pieces-of-100", || Change::Pieces(100)),
];

const WHOLE: &[(&str, &[u8])] = &[
    ("whole/nothing", b""),
    ("whole/http-0.9", b"<html><body>An old page</body></html>"),
    ("whole/http-0.9-short", b"abc"),
    ("whole/http-0.9-name", b"HT"),
    ("whole/only-status-line", b"HTTP/1.1 200 OK\r\n"),
    ("whole/status-line-open", b"HTTP/1.1 200 OK"),
    ("whole/only-100", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ("whole/no-fields", b"HTTP/1.1 200 OK\r\n\r\nbody"),
    ("whole/no-fields-1.0", b"HTTP/1.0 200 OK\r\n\r\nbody"),
    ("whole/no-body", b"HTTP/1.1 200 OK\r\n\r\n"),
    ("whole/redirect-open", b"HTTP/1.1 302 Found\r\nLocation: /ok\r\n"),
    ("whole/tls-alert", b"\x15\x03\x01\x00\x02\x02\x46"),
    ("whole/http2-preface", b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    ("whole/line-feed-then-crlf", b"HTTP/1.1 200 OK\r\nX-A: 1\n\r\nabc"),
    ("whole/crlf-then-line-feed", b"HTTP/1.1 200 OK\r\nX-A: 1\r\n\nabc"),
    ("whole/204-no-length", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("whole/304-no-length", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    (
        "whole/chunked-1.0",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
    ),
    (
        "whole/keep-alive-1.0",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n12345",
    ),
    (
        "whole/redirect-short-body",
        b"HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 20\r\n\r\nhi",
    ),
];

fn tail(random: &mut Random, _: u64) -> Change {
    const TAILS: &[&[u8]] = &[
        b"\r\n",
        b"x",
        b"junk behind the body",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond",
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n",
    ];
    Change::Tail(random.pick(TAILS).to_vec())
}

fn cut(random: &mut Random, _: u64) -> Change {
    Change::Cut(1 + random.below(60))
}

fn always(group: Group) -> impl Fn(&(&'static str, Always)) -> Production {
    move |(kind, make)| Production::new(group, kind, Make::Always(*make))
}

/// Line ends and cuts of a head.
pub(super) fn forms() -> impl Iterator<Item = Production> {
    FORMS.iter().map(always(Group::Form))
}

pub(super) fn productions() -> Vec<Production> {
    let mut all: Vec<_> = forms().collect();
    all.extend(ENDS.iter().map(always(Group::Ending)));
    all.extend(
        WHOLE
            .iter()
            .map(|(kind, bytes)| Production::new(Group::Whole, kind, Make::Raw(bytes))),
    );
    all.push(Production::new(Group::Form, "form/tail", Make::Random(tail)));
    all.push(Production::new(Group::Form, "form/cut", Make::Random(cut)));
    all
}
