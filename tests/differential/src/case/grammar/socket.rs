//! WebSockets as servers speak them and should not.
use super::{
    super::{
        message::End,
        socket::{BINARY, CLOSE, FIN, PING, PONG, SocketChange, TEXT, close, frame},
    },
    Change, Group, Make, Production,
};

type Line = &'static [u8];
/// Makes bytes of the server.
type Bytes = fn() -> Vec<u8>;
/// An end: the last bytes of the server, whether it waits for an answer, and the end of the connection.
type Ending = (&'static str, Bytes, bool, End);
/// An end by the page: code and reason, what the server answers, and the end of the connection.
type PageCloses = (&'static str, (u16, &'static str), Bytes, End);

const UPGRADE: Line = b"Upgrade: websocket";
const CONNECTION: Line = b"Connection: Upgrade";
const ACCEPT: Line = b"Sec-WebSocket-Accept: {accept}";

/// Handshakes.
const HEADS: &[(&str, &[Line])] = &[
    ("handshake/lower-case", &[b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-accept: {accept}"]),
    ("handshake/upper-case", &[b"UPGRADE: WEBSOCKET", b"CONNECTION: UPGRADE", b"SEC-WEBSOCKET-ACCEPT: {accept}"]),
    ("handshake/accept-first", &[ACCEPT, CONNECTION, UPGRADE]),
    ("handshake/no-upgrade", &[CONNECTION, ACCEPT]),
    ("handshake/no-connection", &[UPGRADE, ACCEPT]),
    ("handshake/no-accept", &[UPGRADE, CONNECTION]),
    ("handshake/nothing", &[]),
    ("handshake/connection-list", &[UPGRADE, b"Connection: keep-alive, Upgrade", ACCEPT]),
    ("handshake/connection-two-lines", &[UPGRADE, b"Connection: keep-alive", CONNECTION, ACCEPT]),
    ("handshake/connection-close", &[UPGRADE, b"Connection: close", ACCEPT]),
    ("handshake/connection-twice", &[UPGRADE, CONNECTION, CONNECTION, ACCEPT]),
    ("handshake/connection-junk", &[UPGRADE, b"Connection: upgradex, x upgrade", ACCEPT]),
    ("handshake/upgrade-twice", &[UPGRADE, UPGRADE, CONNECTION, ACCEPT]),
    ("handshake/upgrade-list", &[b"Upgrade: websocket, h2c", CONNECTION, ACCEPT]),
    ("handshake/upgrade-version", &[b"Upgrade: websocket/13", CONNECTION, ACCEPT]),
    ("handshake/upgrade-other", &[b"Upgrade: h2c", CONNECTION, ACCEPT]),
    ("handshake/upgrade-spaces", &[b"Upgrade:   websocket  ", CONNECTION, ACCEPT]),
    ("handshake/accept-wrong", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA="]),
    ("handshake/accept-empty", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept:"]),
    ("handshake/accept-twice", &[UPGRADE, CONNECTION, ACCEPT, ACCEPT]),
    ("handshake/accept-twice-different", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Accept: x"]),
    ("handshake/accept-spaces", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept:   {accept}  "]),
    ("handshake/accept-quoted", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept: \"{accept}\""]),
    ("handshake/accept-space-before-colon", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept : {accept}"]),
    ("handshake/accept-folded", &[UPGRADE, CONNECTION, b"Sec-WebSocket-Accept:\r\n {accept}"]),
    ("handshake/with-length", &[UPGRADE, CONNECTION, ACCEPT, b"Content-Length: 5"]),
    ("handshake/with-length-zero", &[UPGRADE, CONNECTION, ACCEPT, b"Content-Length: 0"]),
    ("handshake/with-lengths", &[UPGRADE, CONNECTION, ACCEPT, b"Content-Length: 5", b"Content-Length: 6"]),
    ("handshake/with-chunks", &[UPGRADE, CONNECTION, ACCEPT, b"Transfer-Encoding: chunked"]),
    ("handshake/with-coding", &[UPGRADE, CONNECTION, ACCEPT, b"Content-Encoding: gzip"]),
    ("handshake/with-cookie", &[UPGRADE, CONNECTION, ACCEPT, b"Set-Cookie: s=1"]),
    ("handshake/with-location", &[UPGRADE, CONNECTION, ACCEPT, b"Location: /ok"]),
    ("handshake/with-version", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Version: 13"]),
    ("handshake/with-version-8", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Version: 8"]),
    ("handshake/protocol-unasked", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Protocol: chat"]),
    ("handshake/protocol-empty", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Protocol:"]),
    ("handshake/extension-unasked", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: foo"]),
    ("handshake/extension-empty", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions:"]),
    ("handshake/extension-deflate", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: permessage-deflate"]),
    ("handshake/extension-deflate-twice", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate"]),
    ("handshake/extension-deflate-parameters", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"]),
    ("handshake/extension-deflate-window", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9"]),
    ("handshake/extension-deflate-odd", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: permessage-deflate; foo=1"]),
    ("handshake/extension-webkit", &[UPGRADE, CONNECTION, ACCEPT, b"Sec-WebSocket-Extensions: x-webkit-deflate-frame"]),
];

const PROTOCOLS: &[(&str, &[&str], Option<Line>)] = &[
    ("protocol/asked-not-answered", &["chat"], None),
    ("protocol/asked", &["chat"], Some(b"Sec-WebSocket-Protocol: chat")),
    (
        "protocol/second",
        &["chat", "talk"],
        Some(b"Sec-WebSocket-Protocol: talk"),
    ),
    (
        "protocol/both",
        &["chat", "talk"],
        Some(b"Sec-WebSocket-Protocol: chat, talk"),
    ),
    (
        "protocol/twice",
        &["chat", "talk"],
        Some(b"Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: talk"),
    ),
    ("protocol/other", &["chat"], Some(b"Sec-WebSocket-Protocol: talk")),
    (
        "protocol/other-case",
        &["chat"],
        Some(b"Sec-WebSocket-Protocol: CHAT"),
    ),
    (
        "protocol/spaces",
        &["chat"],
        Some(b"Sec-WebSocket-Protocol:  chat  "),
    ),
    ("protocol/empty", &["chat"], Some(b"Sec-WebSocket-Protocol:")),
];

/// Bytes of the server, right behind the head or after the echo.
const FRAMES: &[(&str, &str, Bytes)] = &[
    ("early/text", "late/text", || frame(FIN | TEXT, b"hello")),
    ("early/binary", "late/binary", || {
        frame(FIN | BINARY, b"\0\x01\xff")
    }),
    ("early/empty", "late/empty", || frame(FIN | TEXT, b"")),
    ("early/three", "late/three", || {
        frame(FIN | TEXT, b"one more").repeat(3)
    }),
    ("early/size-125", "late/size-125", || {
        frame(FIN | TEXT, &[b'a'; 125])
    }),
    ("early/size-126", "late/size-126", || {
        frame(FIN | TEXT, &[b'a'; 126])
    }),
    ("early/size-65535", "late/size-65535", || {
        frame(FIN | BINARY, &vec![b'a'; 65_535])
    }),
    ("early/size-65536", "late/size-65536", || {
        frame(FIN | BINARY, &vec![b'a'; 65_536])
    }),
    ("early/size-300000", "late/size-300000", || {
        frame(FIN | BINARY, &vec![b'a'; 300_000])
    }),
    ("early/size-not-shortest", "late/size-not-shortest", || {
        b"\x81\x7e\0\x05hello".to_vec()
    }),
    ("early/size-not-shortest-64", "late/size-not-shortest-64", || {
        b"\x81\x7f\0\0\0\0\0\0\0\x05hello".to_vec()
    }),
    ("early/size-negative", "late/size-negative", || {
        b"\x81\x7f\x80\0\0\0\0\0\0\x05hello".to_vec()
    }),
    ("early/size-huge", "late/size-huge", || {
        b"\x82\x7f\x7f\0\0\0\0\0\0\x05hello".to_vec()
    }),
    ("early/fragments", "late/fragments", || {
        [frame(TEXT, b"one "), frame(0, b"two "), frame(FIN, b"three")].concat()
    }),
    ("early/fragments-empty", "late/fragments-empty", || {
        [frame(TEXT, b""), frame(0, b"x"), frame(FIN, b"")].concat()
    }),
    ("early/fragments-with-ping", "late/fragments-with-ping", || {
        [frame(TEXT, b"one "), frame(FIN | PONG, b"x"), frame(FIN, b"two")].concat()
    }),
    (
        "early/fragments-in-fragments",
        "late/fragments-in-fragments",
        || [frame(TEXT, b"one "), frame(TEXT, b"two ")].concat(),
    ),
    (
        "early/fragments-without-end",
        "late/fragments-without-end",
        || frame(TEXT, b"one "),
    ),
    ("early/continuation-first", "late/continuation-first", || {
        frame(FIN, b"three")
    }),
    ("early/pong", "late/pong", || frame(FIN | PONG, b"unasked")),
    ("early/ping-long", "late/ping-long", || {
        frame(FIN | PING, &[b'a'; 126])
    }),
    ("early/ping-in-fragments", "late/ping-in-fragments", || {
        frame(PING, b"a")
    }),
    ("early/masked", "late/masked", || {
        b"\x81\x85\0\0\0\0hello".to_vec()
    }),
    ("early/reserved-bit-1", "late/reserved-bit-1", || {
        frame(FIN | 0x40 | TEXT, b"hello")
    }),
    ("early/reserved-bit-2", "late/reserved-bit-2", || {
        frame(FIN | 0x20 | TEXT, b"hello")
    }),
    ("early/reserved-bit-3", "late/reserved-bit-3", || {
        frame(FIN | 0x10 | TEXT, b"hello")
    }),
    ("early/reserved-data", "late/reserved-data", || {
        frame(FIN | 3, b"hello")
    }),
    ("early/reserved-control", "late/reserved-control", || {
        frame(FIN | 11, b"hello")
    }),
    ("early/invalid-utf8", "late/invalid-utf8", || {
        frame(FIN | TEXT, b"a\xff")
    }),
    ("early/cut-utf8", "late/cut-utf8", || frame(FIN | TEXT, b"a\xc3")),
    ("early/utf8-in-fragments", "late/utf8-in-fragments", || {
        [frame(TEXT, b"a\xc3"), frame(FIN, b"\xa9")].concat()
    }),
    ("early/utf8-surrogate", "late/utf8-surrogate", || {
        frame(FIN | TEXT, b"\xed\xa0\x80")
    }),
    ("early/nul", "late/nul", || frame(FIN | TEXT, b"a\0b")),
    ("early/junk", "late/junk", || b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    ("early/line-end", "late/line-end", || b"\r\n".to_vec()),
    ("early/close-at-once", "late/close-at-once", || {
        close(1000, b"early")
    }),
    ("early/text-and-close", "late/text-and-close", || {
        [frame(FIN | TEXT, b"last"), close(3000, b"then")].concat()
    }),
];

/// Ends: the last bytes of the server, whether it waits for an answer, and the end of the connection.
const ENDS: &[Ending] = &[
    ("close/no-code", || frame(FIN | CLOSE, b""), true, End::Close),
    ("close/one-byte", || frame(FIN | CLOSE, b"\x03"), true, End::Close),
    ("close/0", || close(0, b""), true, End::Close),
    ("close/999", || close(999, b""), true, End::Close),
    ("close/1000-no-reason", || close(1000, b""), true, End::Close),
    ("close/1001", || close(1001, b"going"), true, End::Close),
    ("close/1002", || close(1002, b""), true, End::Close),
    ("close/1004", || close(1004, b""), true, End::Close),
    ("close/1005", || close(1005, b""), true, End::Close),
    ("close/1006", || close(1006, b""), true, End::Close),
    ("close/1011", || close(1011, b"our fault"), true, End::Close),
    ("close/1015", || close(1015, b""), true, End::Close),
    ("close/1016", || close(1016, b""), true, End::Close),
    ("close/2999", || close(2999, b""), true, End::Close),
    ("close/3000", || close(3000, b""), true, End::Close),
    ("close/4999", || close(4999, b"\xc3\xa9"), true, End::Close),
    ("close/5000", || close(5000, b""), true, End::Close),
    ("close/65535", || close(65_535, b""), true, End::Close),
    ("close/reason-123", || close(4000, &[b'r'; 123]), true, End::Close),
    ("close/reason-124", || close(4000, &[b'r'; 124]), true, End::Close),
    ("close/reason-invalid", || close(4000, b"\xff"), true, End::Close),
    ("close/not-waiting", || close(1000, b"gone"), false, End::Close),
    (
        "close/connection-stays",
        || close(1000, b"stays"),
        true,
        End::Keep,
    ),
    ("close/reset", || close(1000, b"reset"), false, End::Reset),
    (
        "close/reset-after-answer",
        || close(1000, b"reset"),
        true,
        End::Reset,
    ),
    (
        "close/abrupt",
        || close(1000, b"abrupt"),
        false,
        End::CloseAbruptly,
    ),
    (
        "close/then-text",
        || [close(1000, b"x"), frame(FIN | TEXT, b"late")].concat(),
        true,
        End::Close,
    ),
    (
        "close/twice",
        || [close(1000, b"x"), close(1001, b"y")].concat(),
        true,
        End::Close,
    ),
    ("end/without-close", Vec::new, false, End::Close),
    ("end/without-close-reset", Vec::new, false, End::Reset),
    ("end/without-close-abrupt", Vec::new, false, End::CloseAbruptly),
    ("end/in-a-head", || b"\x81\x7e\0".to_vec(), false, End::Close),
    ("end/in-a-frame", || b"\x81\x05hel".to_vec(), false, End::Close),
    (
        "end/in-a-close",
        || b"\x88\x05\x03\xe8".to_vec(),
        false,
        End::Close,
    ),
    (
        "end/after-text",
        || frame(FIN | TEXT, b"last words"),
        false,
        End::Close,
    ),
    (
        "end/after-much",
        || frame(FIN | BINARY, &vec![b'a'; 250_000]),
        false,
        End::Close,
    ),
    (
        "end/after-much-abrupt",
        || frame(FIN | BINARY, &vec![b'a'; 250_000]),
        false,
        End::CloseAbruptly,
    ),
    ("end/open", Vec::new, false, End::Keep),
];

/// The page closes; what the server answers, and how it ends.
const PAGE_CLOSES: &[PageCloses] = &[
    ("page/closes", (1000, "bye"), || close(1000, b"bye"), End::Close),
    (
        "page/closes-3001",
        (3001, "code"),
        || close(3001, b"code"),
        End::Close,
    ),
    (
        "page/closes-other-answer",
        (3001, "code"),
        || close(4002, b"other"),
        End::Close,
    ),
    ("page/closes-no-answer", (1000, ""), Vec::new, End::Close),
    ("page/closes-no-answer-reset", (1000, ""), Vec::new, End::Reset),
    ("page/closes-no-answer-open", (1000, ""), Vec::new, End::Keep),
    (
        "page/closes-text-then-answer",
        (1000, ""),
        || [frame(FIN | TEXT, b"late"), close(1000, b"")].concat(),
        End::Close,
    ),
];

const PAGE_SENDS: &[(&str, &[usize])] = &[
    ("page/silent", &[]),
    ("page/empty-message", &[0]),
    ("page/many-messages", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ("page/message-125", &[125]),
    ("page/message-126", &[126]),
    ("page/message-70000", &[70_000]),
    ("page/message-300000", &[300_000]),
];

/// How a production makes a change.
#[derive(Clone, Copy)]
pub(in crate::case) enum SocketMake {
    Lines(&'static [Line]),
    Protocols(&'static [&'static str], Option<Line>),
    Early(Bytes),
    Late(Bytes),
    Sends(&'static [usize]),
    End(Bytes, bool, End),
    PageCloses((u16, &'static str), Bytes, End),
}

impl SocketMake {
    pub(super) fn change(self) -> Change {
        Change::Socket(match self {
            Self::Lines(lines) => SocketChange::Lines(super::owned(lines)),
            Self::Protocols(asked, line) => SocketChange::Protocols(asked, line),
            Self::Early(make) => SocketChange::Early(make()),
            Self::Late(make) => SocketChange::Late(make()),
            Self::Sends(sizes) => SocketChange::Page(sizes),
            Self::End(make, waits, end) => SocketChange::End(make(), waits, end),
            Self::PageCloses(closes, make, end) => SocketChange::PageCloses(closes, make(), end),
        })
    }
}

pub(super) fn productions() -> Vec<Production> {
    let make = |group, kind, make| Production::new(group, kind, Make::Socket(make));
    let mut all = Vec::new();
    for (kind, lines) in HEADS {
        all.push(make(Group::SocketHead, kind, SocketMake::Lines(lines)));
    }
    for (kind, asked, line) in PROTOCOLS {
        all.push(make(
            Group::SocketProtocol,
            kind,
            SocketMake::Protocols(asked, *line),
        ));
    }
    for (early, late, bytes) in FRAMES {
        all.push(make(Group::SocketEarly, early, SocketMake::Early(*bytes)));
        all.push(make(Group::SocketLate, late, SocketMake::Late(*bytes)));
    }
    for (kind, sizes) in PAGE_SENDS {
        all.push(make(Group::SocketPage, kind, SocketMake::Sends(sizes)));
    }
    for (kind, last, waits, end) in ENDS {
        all.push(make(Group::SocketEnd, kind, SocketMake::End(*last, *waits, *end)));
    }
    for (kind, closes, answer, end) in PAGE_CLOSES {
        all.push(make(
            Group::SocketEnd,
            kind,
            SocketMake::PageCloses(*closes, *answer, *end),
        ));
    }
    all
}
