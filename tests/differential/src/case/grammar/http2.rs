//! Responses over HTTP/2 (RFC 9113) as servers send them and should not.
use super::{
    super::http2::{Field, Frame, Http2Change, Plan},
    Group, Make, Production,
};

fn field(name: &str, value: &str) -> Field {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec())
}

fn status(value: &str) -> Http2Change {
    Http2Change::Pseudo(vec![field(":status", value)])
}

fn one(name: &str, value: &str) -> Http2Change {
    Http2Change::Fields(vec![field(name, value)])
}

fn raw(name: &[u8], value: &[u8]) -> Http2Change {
    Http2Change::Fields(vec![(name.to_vec(), value.to_vec())])
}

fn lengths(values: &[&str]) -> Http2Change {
    Http2Change::Length(values.iter().map(|value| (*value).to_owned()).collect())
}

fn plan(plan: Plan) -> Http2Change {
    Http2Change::Plan(plan)
}

fn frame(kind: u8, on_stream: bool, payload: &[u8]) -> Frame {
    Frame::Raw {
        kind,
        flags: 0,
        on_stream,
        payload: payload.to_vec(),
    }
}

type Change = fn() -> Http2Change;

const HEADS: &[(&str, Change)] = &[
    ("http2/status-204-with-body", || status("204")),
    ("http2/status-205-with-body", || status("205")),
    ("http2/status-304-with-body", || status("304")),
    ("http2/status-206-unasked", || status("206")),
    ("http2/status-404", || status("404")),
    ("http2/status-407", || status("407")),
    ("http2/status-421", || status("421")),
    ("http2/status-502", || status("502")),
    ("http2/status-600", || status("600")),
    ("http2/status-999", || status("999")),
    ("http2/status-1000", || status("1000")),
    ("http2/status-20", || status("20")),
    ("http2/status-099", || status("099")),
    ("http2/status-0", || status("0")),
    ("http2/status-letters", || status("abc")),
    ("http2/status-with-reason", || status("200 OK")),
    ("http2/status-plus", || status("+200")),
    ("http2/status-empty", || status("")),
    ("http2/status-101", || status("101")),
    ("http2/status-missing", || Http2Change::Pseudo(Vec::new())),
    ("http2/status-twice", || {
        Http2Change::Pseudo(vec![field(":status", "200"), field(":status", "200")])
    }),
    ("http2/pseudo-unknown", || {
        Http2Change::Pseudo(vec![field(":status", "200"), field(":odd", "x")])
    }),
    ("http2/pseudo-of-requests", || {
        Http2Change::Pseudo(vec![field(":status", "200"), field(":path", "/")])
    }),
    ("http2/pseudo-late", || one(":status", "200")),
];

const FIELDS: &[(&str, Change)] = &[
    ("http2/upper-case-name", || one("X-Upper", "1")),
    ("http2/space-in-name", || one("x a", "1")),
    ("http2/empty-name", || one("", "1")),
    ("http2/colon-in-name", || one("x:a", "1")),
    ("http2/control-in-name", || one("x\u{1}a", "1")),
    ("http2/utf8-name", || one("x-\u{e9}", "1")),
    ("http2/control-in-value", || one("x-a", "a\u{1}b")),
    ("http2/delete-in-value", || one("x-a", "a\u{7f}b")),
    ("http2/nul-in-value", || one("x-a", "a\0b")),
    ("http2/line-feed-in-value", || one("x-a", "a\nb")),
    ("http2/line-end-in-value", || one("x-a", "a\r\nx-b: c")),
    ("http2/spaces-around-value", || one("x-a", "  a  ")),
    ("http2/tab-in-value", || one("x-a", "a\tb")),
    ("http2/utf8-value", || one("x-a", "\u{e9}")),
    ("http2/latin1-value", || raw(b"x-a", b"\xe9\x80")),
    ("http2/empty-value", || one("x-a", "")),
    ("http2/connection", || one("connection", "close")),
    ("http2/keep-alive", || one("keep-alive", "timeout=5")),
    ("http2/transfer-encoding", || one("transfer-encoding", "chunked")),
    ("http2/upgrade", || one("upgrade", "h2c")),
    ("http2/proxy-connection", || one("proxy-connection", "close")),
    ("http2/te", || one("te", "gzip")),
    ("http2/host", || one("host", "other.test")),
    ("http2/many", || {
        Http2Change::Fields((0..300).map(|n| field(&format!("x-{n}"), "value")).collect())
    }),
    ("http2/long", || one("x-long", &"a".repeat(40_000))),
    ("http2/long-100", || one("x-long", &"a".repeat(100_000))),
    ("http2/long-240", || one("x-long", &"a".repeat(240_000))),
    ("http2/long-300", || one("x-long", &"a".repeat(300_000))),
    ("http2/cookies", || {
        Http2Change::Fields(
            (0..60)
                .map(|n| field("set-cookie", &format!("h{n}={}", "v".repeat(900))))
                .collect(),
        )
    }),
    ("http2/alt-svc", || one("alt-svc", "h3=\":443\"")),
    ("http2/location-on-200", || one("location", "/ok")),
];

const LENGTHS: &[(&str, Change)] = &[
    ("http2/length-none", || lengths(&[])),
    ("http2/length-short", || lengths(&["{less}"])),
    ("http2/length-long", || lengths(&["{more}"])),
    ("http2/length-zero", || lengths(&["0"])),
    ("http2/length-negative", || lengths(&["-1"])),
    ("http2/length-empty", || lengths(&[""])),
    ("http2/length-letters", || lengths(&["unknown"])),
    ("http2/length-plus", || lengths(&["+{n}"])),
    ("http2/length-list", || lengths(&["{n}, {n}"])),
    ("http2/length-twice", || lengths(&["{n}", "{n}"])),
    ("http2/length-twice-different", || lengths(&["{n}", "{less}"])),
    ("http2/length-overflow", || lengths(&["99999999999999999999"])),
];

const INTERIMS: &[(&str, Change)] = &[
    ("http2/interim-100", || {
        Http2Change::Interim(vec![field(":status", "100")], 1)
    }),
    ("http2/interim-103", || {
        Http2Change::Interim(
            vec![
                field(":status", "103"),
                field("link", "</none.css>; rel=preload; as=style"),
            ],
            1,
        )
    }),
    ("http2/interim-103-many", || {
        Http2Change::Interim(vec![field(":status", "103")], 15)
    }),
    ("http2/interim-150", || {
        Http2Change::Interim(vec![field(":status", "150")], 1)
    }),
    ("http2/interim-101", || {
        Http2Change::Interim(vec![field(":status", "101")], 1)
    }),
];

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
const INADEQUATE_SECURITY: u32 = 12;
const HTTP_1_1_REQUIRED: u32 = 13;

const PLANS: &[(&str, Change)] = &[
    ("http2/empty-frames", || plan(Plan::EmptyFrames(20))),
    ("http2/padded", || plan(Plan::Padded(100, 37))),
    ("http2/padded-most", || plan(Plan::Padded(50, 255))),
    ("http2/trailers", || plan(Plan::Trailers(vec![field("x-t", "1")]))),
    ("http2/trailers-with-pseudo", || {
        plan(Plan::Trailers(vec![field(":status", "200")]))
    }),
    ("http2/trailers-upper-case", || {
        plan(Plan::Trailers(vec![field("X-T", "1")]))
    }),
    ("http2/head-only", || plan(Plan::HeadOnly)),
    ("http2/ping-first", || {
        plan(Plan::After(vec![frame(6, false, b"01234567")]))
    }),
    ("http2/unknown-frame-first", || {
        plan(Plan::After(vec![
            frame(0xbe, true, b"what"),
            frame(0xbf, false, b""),
        ]))
    }),
    ("http2/unknown-frame-between", || {
        plan(Plan::Between(vec![frame(0xbe, true, b"what")]))
    }),
    ("http2/altsvc-frame", || {
        plan(Plan::After(vec![frame(10, true, b"\0\0h3=\":443\"")]))
    }),
    ("http2/origin-frame", || {
        plan(Plan::After(vec![frame(12, false, b"\0\x0ehttps://o.test")]))
    }),
    ("http2/priority-frame", || {
        plan(Plan::After(vec![frame(2, true, b"\0\0\0\0\x10")]))
    }),
    ("http2/priority-update-frame", || {
        plan(Plan::After(vec![frame(16, false, b"\0\0\0\x01u=1")]))
    }),
    ("http2/settings-again", || {
        plan(Plan::Between(vec![frame(4, false, b"\0\x03\0\0\0\x64")]))
    }),
    ("http2/settings-unknown", || {
        plan(Plan::Between(vec![frame(4, false, b"\xf0\0\0\0\0\x01")]))
    }),
    ("http2/settings-no-streams", || {
        plan(Plan::Before(vec![frame(4, false, b"\0\x03\0\0\0\0")]))
    }),
    ("http2/window-update", || {
        plan(Plan::Between(vec![frame(8, true, b"\0\0\x10\0")]))
    }),
    ("http2/window-update-zero", || {
        plan(Plan::Between(vec![frame(8, true, b"\0\0\0\0")]))
    }),
    ("http2/data-before-head", || {
        plan(Plan::After(vec![Frame::Data {
            bytes: b"early".to_vec(),
            end: false,
            padding: None,
        }]))
    }),
    ("http2/data-after-end", || {
        plan(Plan::Before(vec![Frame::Data {
            bytes: b"late".to_vec(),
            end: true,
            padding: None,
        }]))
    }),
    ("http2/head-after-end", || {
        plan(Plan::Before(vec![Frame::Head {
            fields: vec![field("x-t", "1")],
            end: true,
        }]))
    }),
    ("http2/reset-after-end-no-error", || {
        plan(Plan::Before(vec![Frame::Reset(NO_ERROR)]))
    }),
    ("http2/reset-after-end-cancel", || {
        plan(Plan::Before(vec![Frame::Reset(CANCEL)]))
    }),
    ("http2/reset-instead-of-end-no-error", || {
        plan(Plan::OpenAnd(vec![Frame::Reset(NO_ERROR)]))
    }),
    ("http2/reset-instead-of-end-internal", || {
        plan(Plan::OpenAnd(vec![Frame::Reset(INTERNAL_ERROR)]))
    }),
    ("http2/reset-half-no-error", || {
        plan(Plan::HalfAnd(vec![Frame::Reset(NO_ERROR)]))
    }),
    ("http2/reset-half-cancel", || {
        plan(Plan::HalfAnd(vec![Frame::Reset(CANCEL)]))
    }),
    ("http2/reset-after-head", || {
        plan(Plan::HeadAnd(vec![Frame::Reset(INTERNAL_ERROR)]))
    }),
    ("http2/reset-no-error", || {
        plan(Plan::Only(vec![Frame::Reset(NO_ERROR)]))
    }),
    ("http2/reset-protocol-error", || {
        plan(Plan::Only(vec![Frame::Reset(PROTOCOL_ERROR)]))
    }),
    ("http2/reset-internal-error", || {
        plan(Plan::Only(vec![Frame::Reset(INTERNAL_ERROR)]))
    }),
    ("http2/reset-cancel", || {
        plan(Plan::Only(vec![Frame::Reset(CANCEL)]))
    }),
    ("http2/reset-calm", || {
        plan(Plan::Only(vec![Frame::Reset(ENHANCE_YOUR_CALM)]))
    }),
    ("http2/reset-inadequate-security", || {
        plan(Plan::Only(vec![Frame::Reset(INADEQUATE_SECURITY)]))
    }),
    ("http2/reset-refused-always", || {
        plan(Plan::Only(vec![Frame::Reset(REFUSED_STREAM)]))
    }),
    ("http2/reset-refused-once", || {
        plan(Plan::First(vec![Frame::Reset(REFUSED_STREAM)]))
    }),
    ("http2/reset-internal-once", || {
        plan(Plan::First(vec![Frame::Reset(INTERNAL_ERROR)]))
    }),
    ("http2/http-1.1-required", || {
        plan(Plan::Only(vec![Frame::Reset(HTTP_1_1_REQUIRED)]))
    }),
    ("http2/http-1.1-required-goaway", || {
        plan(Plan::Only(vec![
            Frame::GoAway {
                served: false,
                code: HTTP_1_1_REQUIRED,
            },
            Frame::Close,
        ]))
    }),
    ("http2/goaway-unserved-once", || {
        plan(Plan::First(vec![Frame::GoAway {
            served: false,
            code: NO_ERROR,
        }]))
    }),
    ("http2/goaway-unserved-close-once", || {
        plan(Plan::First(vec![
            Frame::GoAway {
                served: false,
                code: NO_ERROR,
            },
            Frame::Close,
        ]))
    }),
    ("http2/goaway-unserved-error-once", || {
        plan(Plan::First(vec![
            Frame::GoAway {
                served: false,
                code: ENHANCE_YOUR_CALM,
            },
            Frame::Close,
        ]))
    }),
    ("http2/goaway-served", || {
        plan(Plan::After(vec![Frame::GoAway {
            served: true,
            code: NO_ERROR,
        }]))
    }),
    ("http2/goaway-between", || {
        plan(Plan::Between(vec![Frame::GoAway {
            served: true,
            code: NO_ERROR,
        }]))
    }),
    ("http2/goaway-served-error", || {
        plan(Plan::After(vec![Frame::GoAway {
            served: true,
            code: INTERNAL_ERROR,
        }]))
    }),
    ("http2/goaway-behind", || {
        plan(Plan::Before(vec![
            Frame::GoAway {
                served: true,
                code: NO_ERROR,
            },
            Frame::Close,
        ]))
    }),
    ("http2/close-before", || plan(Plan::Only(vec![Frame::Close]))),
    ("http2/close-before-once", || {
        plan(Plan::First(vec![Frame::Close]))
    }),
    ("http2/close-after-head", || {
        plan(Plan::HeadAnd(vec![Frame::Close]))
    }),
    ("http2/close-half", || plan(Plan::HalfAnd(vec![Frame::Close]))),
    ("http2/close-without-end", || {
        plan(Plan::OpenAnd(vec![Frame::Close]))
    }),
    ("http2/push", || {
        plan(Plan::After(vec![frame(5, true, b"\0\0\0\x02\x82\x84")]))
    }),
];

pub(super) fn productions() -> Vec<Production> {
    let groups = [
        (Group::Http2Head, HEADS),
        (Group::Field, FIELDS),
        (Group::Framing, LENGTHS),
        (Group::Lead, INTERIMS),
        (Group::Ending, PLANS),
    ];
    let of = |(group, list): (Group, &'static [(&'static str, Change)])| {
        list.iter()
            .map(move |(kind, make)| Production::new(group, kind, Make::Http2(*make)))
    };
    groups.into_iter().flat_map(of).collect()
}
