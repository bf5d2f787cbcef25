//! Status lines, and what comes before them.
use super::{Always, Change, Group, Make, Production};
use crate::random::Random;

const LINES: &[(&str, &[u8])] = &[
    ("status/no-reason", b"HTTP/1.1 200"),
    ("status/empty-reason", b"HTTP/1.1 200 "),
    ("status/two-spaces", b"HTTP/1.1  200 OK"),
    ("status/two-spaces-behind", b"HTTP/1.1 200  OK"),
    ("status/version-1.2", b"HTTP/1.2 200 OK"),
    ("status/version-1.0", b"HTTP/1.0 200 OK"),
    ("status/version-2", b"HTTP/2 200 OK"),
    ("status/version-2.0", b"HTTP/2.0 200 OK"),
    ("status/version-0.9", b"HTTP/0.9 200 OK"),
    ("status/version-1", b"HTTP/1 200 OK"),
    ("status/version-missing", b"HTTP 200 OK"),
    ("status/version-1.10", b"HTTP/1.10 200 OK"),
    ("status/version-01.1", b"HTTP/01.1 200 OK"),
    ("status/version-letters", b"HTTP/x.y 200 OK"),
    ("status/tab", b"HTTP/1.1\t200 OK"),
    ("status/lower-case", b"http/1.1 200 OK"),
    ("status/icy", b"ICY 200 OK"),
    ("status/tab-before-reason", b"HTTP/1.1 200\tOK"),
    ("status/no-code", b"HTTP/1.1 OK"),
    ("status/only-version", b"HTTP/1.1"),
    ("status/only-name", b"HTTP"),
    ("status/four-digits", b"HTTP/1.1 2000 OK"),
    ("status/two-digits", b"HTTP/1.1 20 OK"),
    ("status/zero", b"HTTP/1.1 0 Zero"),
    ("status/99", b"HTTP/1.1 99 Low"),
    ("status/600", b"HTTP/1.1 600 High"),
    ("status/777", b"HTTP/1.1 777 High"),
    ("status/999", b"HTTP/1.1 999 Request denied"),
    ("status/1000", b"HTTP/1.1 1000 High"),
    ("status/70000", b"HTTP/1.1 70000 High"),
    ("status/negative", b"HTTP/1.1 -200 OK"),
    ("status/plus", b"HTTP/1.1 +200 OK"),
    ("status/no-space-before-reason", b"HTTP/1.1 200OK"),
    ("status/letters-in-code", b"HTTP/1.1 20x OK"),
    ("status/letters-as-code", b"HTTP/1.1 abc OK"),
    ("status/leading-zero", b"HTTP/1.1 0200 OK"),
    ("status/latin1-reason", b"HTTP/1.1 200 Tr\xe8s bien"),
    ("status/utf8-reason", b"HTTP/1.1 200 Tr\xc3\xa8s bien"),
    ("status/control-in-reason", b"HTTP/1.1 200 a\x01b"),
    ("status/delete-in-reason", b"HTTP/1.1 200 a\x7fb"),
    ("status/nul-in-reason", b"HTTP/1.1 200 a\x00b"),
    ("status/carriage-return-in-reason", b"HTTP/1.1 200 a\rb"),
    ("status/space-before", b" HTTP/1.1 200 OK"),
    ("status/https", b"HTTPS/1.1 200 OK"),
    ("status/other-protocol", b"RTSP/1.0 200 OK"),
    ("status/mail-server", b"220 mail.test ESMTP"),
    ("status/shell-server", b"SSH-2.0-OpenSSH_9.2"),
    ("status/204-with-body", b"HTTP/1.1 204 No Content"),
    ("status/205-with-body", b"HTTP/1.1 205 Reset Content"),
    ("status/304-with-body", b"HTTP/1.1 304 Not Modified"),
    ("status/206-unasked", b"HTTP/1.1 206 Partial Content"),
    ("status/101-unasked", b"HTTP/1.1 101 Switching Protocols"),
    ("status/100-with-body", b"HTTP/1.1 100 Continue"),
    ("status/199", b"HTTP/1.1 199 Odd"),
    ("status/300", b"HTTP/1.1 300 Multiple Choices"),
    ("status/301-without-location", b"HTTP/1.1 301 Moved"),
    ("status/401-without-challenge", b"HTTP/1.1 401 Unauthorized"),
    ("status/402", b"HTTP/1.1 402 Payment Required"),
    ("status/404", b"HTTP/1.1 404 Not Found"),
    (
        "status/407-of-origin",
        b"HTTP/1.1 407 Proxy Authentication Required",
    ),
    ("status/408", b"HTTP/1.1 408 Request Timeout"),
    ("status/410", b"HTTP/1.1 410 Gone"),
    ("status/416-unasked", b"HTTP/1.1 416 Range Not Satisfiable"),
    ("status/418", b"HTTP/1.1 418 I'm a teapot"),
    ("status/421", b"HTTP/1.1 421 Misdirected Request"),
    ("status/425", b"HTTP/1.1 425 Too Early"),
    ("status/426", b"HTTP/1.1 426 Upgrade Required"),
    ("status/429", b"HTTP/1.1 429 Too Many Requests"),
    ("status/500", b"HTTP/1.1 500 Internal Server Error"),
    ("status/502-of-origin", b"HTTP/1.1 502 Bad Gateway"),
    ("status/503", b"HTTP/1.1 503 Service Unavailable"),
    ("status/504-of-origin", b"HTTP/1.1 504 Gateway Timeout"),
    ("status/530", b"HTTP/1.1 530 Frozen"),
];

const LEADS: &[(&str, Always)] = &[
    ("lead/empty-line", || Change::Lead(b"\r\n".to_vec())),
    ("lead/line-feed", || Change::Lead(b"\n".to_vec())),
    ("lead/two-empty-lines", || Change::Lead(b"\r\n\r\n".to_vec())),
    ("lead/junk-1", || Change::Lead(b"x".to_vec())),
    ("lead/junk-4", || Change::Lead(b"xxxx".to_vec())),
    ("lead/junk-5", || Change::Lead(b"xxxxx".to_vec())),
    ("lead/byte-order-mark", || Change::Lead(b"\xef\xbb\xbf".to_vec())),
    ("lead/nul", || Change::Lead(b"\0".to_vec())),
    ("interim/100", || {
        Change::Lead(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())
    }),
    ("interim/102", || {
        Change::Lead(b"HTTP/1.1 102 Processing\r\n\r\n".to_vec())
    }),
    ("interim/103", || {
        Change::Lead(b"HTTP/1.1 103 Early Hints\r\nLink: </none.css>; rel=preload; as=style\r\n\r\n".to_vec())
    }),
    ("interim/103-twelve", || {
        Change::Lead(b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(12))
    }),
    ("interim/100-sixty", || {
        Change::Lead(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(60))
    }),
    ("interim/150", || {
        Change::Lead(b"HTTP/1.1 150 Odd\r\n\r\n".to_vec())
    }),
    ("interim/100-odd-fields", || {
        Change::Lead(b"HTTP/1.1 100\r\nno colon\r\nSet-Cookie: a\x01=b\r\n\r\n".to_vec())
    }),
    ("interim/100-bare-line-feeds", || {
        Change::Lead(b"HTTP/1.1 100 Continue\n\n".to_vec())
    }),
    ("interim/100-with-length", || {
        Change::Lead(b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n".to_vec())
    }),
    ("interim/101-then-200", || {
        Change::Lead(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec(),
        )
    }),
];

/// A status line of random parts, with a code that a response may have.
fn random_line(random: &mut Random, _: u64) -> Change {
    const NAMES: &[&str] = &[
        "HTTP/1.1",
        "HTTP/1.0",
        "HTTP/1.1 ",
        "HTTP/1.3",
        "Http/1.1",
        "HTTP/1",
        "HTTP/11",
        "HTTP/1.1.",
    ];
    const GAPS: &[&str] = &[" ", " ", "  ", "   ", "\t", " \t"];
    const REASONS: &[&str] = &[
        "",
        "OK",
        "ok ",
        "It's fine",
        "a:b",
        "\u{1f642}",
        "200",
        "(null)",
        "OK\x0b",
        "<b>OK</b>",
        "%s",
    ];
    let code = match random.below(6) {
        0 => (200 + random.below(800)).to_string(),
        1 => (600 + random.below(400)).to_string(),
        2 => format!("5{:02}", random.below(100)),
        3 => format!("2{:02}", random.below(100)),
        4 => format!("4{:02}", random.below(100)),
        _ => "200".to_owned(),
    };
    let line = [
        random.pick(NAMES),
        random.pick(GAPS),
        code.as_str(),
        random.pick(GAPS),
        random.pick(REASONS),
    ];
    Change::StatusLine(line.concat().into_bytes())
}

pub(super) fn productions() -> Vec<Production> {
    let mut all: Vec<_> = LINES
        .iter()
        .map(|(kind, line)| Production::new(Group::Status, kind, Make::Status(line)))
        .collect();
    all.extend(
        LEADS
            .iter()
            .map(|(kind, make)| Production::new(Group::Lead, kind, Make::Always(*make))),
    );
    all.push(Production::new(
        Group::Status,
        "status/random",
        Make::Random(random_line),
    ));
    all.push(Production::new(
        Group::Status,
        "status/random-2",
        Make::Random(random_line),
    ));
    all
}
