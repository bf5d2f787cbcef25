//! Where the body ends.
use super::{super::chunks::ChunkStyle, Group, Make, Production};

const LENGTHS: &[(&str, &[&str])] = &[
    ("length/none", &[]),
    ("length/empty", &["Content-Length:"]),
    ("length/minus-one", &["Content-Length: -1"]),
    ("length/negative", &["Content-Length: -{n}"]),
    ("length/plus", &["Content-Length: +{n}"]),
    ("length/spaces", &["Content-Length:   {n}  "]),
    ("length/tab", &["Content-Length:\t{n}\t"]),
    ("length/list-equal", &["Content-Length: {n}, {n}"]),
    ("length/list-equal-no-space", &["Content-Length: {n},{n}"]),
    ("length/list-different", &["Content-Length: {n}, {less}"]),
    ("length/list-open", &["Content-Length: {n},"]),
    ("length/parameter", &["Content-Length: {n};x"]),
    ("length/words", &["Content-Length: {n} bytes"]),
    ("length/hexadecimal", &["Content-Length: 0x{n}"]),
    ("length/fraction", &["Content-Length: {n}.0"]),
    ("length/leading-zeros", &["Content-Length: 000{n}"]),
    ("length/letters", &["Content-Length: unknown"]),
    ("length/quoted", &["Content-Length: \"{n}\""]),
    ("length/zero-with-body", &["Content-Length: 0"]),
    ("length/too-short", &["Content-Length: {less}"]),
    ("length/too-long", &["Content-Length: {more}"]),
    ("length/far-too-long", &["Content-Length: 99999999999"]),
    ("length/largest", &["Content-Length: 9223372036854775807"]),
    ("length/overflow", &["Content-Length: 99999999999999999999"]),
    (
        "length/twice-equal",
        &["Content-Length: {n}", "Content-Length: {n}"],
    ),
    (
        "length/twice-different",
        &["Content-Length: {n}", "Content-Length: {less}"],
    ),
    (
        "length/twice-one-empty",
        &["Content-Length: {n}", "Content-Length:"],
    ),
    (
        "length/twice-one-negative",
        &["Content-Length: {n}", "Content-Length: -1"],
    ),
    ("length/space-before-colon", &["Content-Length : {n}"]),
    ("length/short-space-before-colon", &["Content-Length : {less}"]),
    ("length/folded", &["Content-Length:\r\n {n}"]),
    ("length/lower-case", &["content-length: {n}"]),
];

const CODINGS: &[(&str, &[&[u8]])] = &[
    ("transfer/chunked", &[b"Transfer-Encoding: chunked"]),
    ("transfer/upper-case", &[b"Transfer-Encoding: Chunked"]),
    ("transfer/gzip-chunked", &[b"Transfer-Encoding: gzip, chunked"]),
    (
        "transfer/chunked-chunked",
        &[b"Transfer-Encoding: chunked, chunked"],
    ),
    (
        "transfer/chunked-identity",
        &[b"Transfer-Encoding: chunked, identity"],
    ),
    (
        "transfer/identity-chunked",
        &[b"Transfer-Encoding: identity, chunked"],
    ),
    ("transfer/parameter", &[b"Transfer-Encoding: chunked;q=1"]),
    ("transfer/spaces", &[b"Transfer-Encoding:  chunked  "]),
    ("transfer/vertical-tab", &[b"Transfer-Encoding: \x0bchunked"]),
    ("transfer/comma-behind", &[b"Transfer-Encoding: chunked,"]),
    ("transfer/comma-before", &[b"Transfer-Encoding: ,chunked"]),
    ("transfer/quoted", &[b"Transfer-Encoding: \"chunked\""]),
    (
        "transfer/two-lines",
        &[b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    ),
    (
        "transfer/two-lines-gzip",
        &[b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"],
    ),
    (
        "transfer/two-lines-identity",
        &[b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"],
    ),
    (
        "transfer/two-lines-identity-first",
        &[b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"],
    ),
    (
        "transfer/and-length",
        &[b"Transfer-Encoding: chunked", b"Content-Length: 3"],
    ),
    (
        "transfer/and-length-first",
        &[b"Content-Length: 3", b"Transfer-Encoding: chunked"],
    ),
    (
        "transfer/and-length-list",
        &[b"Transfer-Encoding: chunked", b"Content-Length: 5, 6"],
    ),
    (
        "transfer/and-two-lengths",
        &[
            b"Transfer-Encoding: chunked",
            b"Content-Length: 5",
            b"Content-Length: 6",
        ],
    ),
    (
        "transfer/and-length-negative",
        &[b"Transfer-Encoding: chunked", b"Content-Length: -1"],
    ),
    ("transfer/space-before-colon", &[b"Transfer-Encoding : chunked"]),
    ("transfer/folded", &[b"Transfer-Encoding:\r\n chunked"]),
    ("transfer/odd-name-with-chunks", &[b"Transfer-Encoding: xchunked"]),
];

const UNCHUNKED: &[(&str, &[&[u8]])] = &[
    ("transfer/identity", &[b"Transfer-Encoding: identity"]),
    (
        "transfer/identity-and-length",
        &[b"Transfer-Encoding: identity", b"Content-Length: 3"],
    ),
    ("transfer/empty", &[b"Transfer-Encoding:"]),
    ("transfer/unknown", &[b"Transfer-Encoding: x"]),
    ("transfer/binary", &[b"Transfer-Encoding: binary"]),
    ("transfer/gzip", &[b"Transfer-Encoding: gzip"]),
    ("transfer/chunked-plain-body", &[b"Transfer-Encoding: chunked"]),
];

const PLAIN: ChunkStyle = ChunkStyle::PLAIN;

const STYLES: &[(&str, ChunkStyle)] = &[
    ("chunks/upper-case", ChunkStyle { upper: true, ..PLAIN }),
    (
        "chunks/leading-zeros",
        ChunkStyle {
            before: b"0000000",
            ..PLAIN
        },
    ),
    (
        "chunks/leading-zeros-many",
        ChunkStyle {
            before: b"0000000000000000000000000000000000",
            ..PLAIN
        },
    ),
    (
        "chunks/space-before",
        ChunkStyle {
            before: b" ",
            ..PLAIN
        },
    ),
    ("chunks/space-behind", ChunkStyle { after: b" ", ..PLAIN }),
    (
        "chunks/spaces-behind",
        ChunkStyle {
            after: b"      ",
            last: b"0     \r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/tab-behind",
        ChunkStyle {
            after: b"\t",
            ..PLAIN
        },
    ),
    (
        "chunks/0x",
        ChunkStyle {
            before: b"0x",
            ..PLAIN
        },
    ),
    (
        "chunks/plus",
        ChunkStyle {
            before: b"+",
            ..PLAIN
        },
    ),
    (
        "chunks/minus",
        ChunkStyle {
            before: b"-",
            ..PLAIN
        },
    ),
    (
        "chunks/extension",
        ChunkStyle {
            after: b";a=b",
            ..PLAIN
        },
    ),
    (
        "chunks/extension-odd",
        ChunkStyle {
            after: b" ; a ;; \"b\x01",
            ..PLAIN
        },
    ),
    (
        "chunks/words",
        ChunkStyle {
            after: b" a",
            ..PLAIN
        },
    ),
    (
        "chunks/bare-line-feeds",
        ChunkStyle {
            size_end: b"\n",
            data_end: b"\n",
            last: b"0\n\n",
            ..PLAIN
        },
    ),
    (
        "chunks/bare-line-feed-size",
        ChunkStyle {
            size_end: b"\n",
            ..PLAIN
        },
    ),
    (
        "chunks/bare-line-feed-data",
        ChunkStyle {
            data_end: b"\n",
            ..PLAIN
        },
    ),
    (
        "chunks/two-carriage-returns",
        ChunkStyle {
            size_end: b"\r\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/no-line-end-after-data",
        ChunkStyle {
            data_end: b"",
            ..PLAIN
        },
    ),
    (
        "chunks/empty-line-more",
        ChunkStyle {
            data_end: b"\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/junk-after-data",
        ChunkStyle {
            data_end: b"xx\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/end-after-last-size",
        ChunkStyle {
            last: b"0\r\n",
            ..PLAIN
        },
    ),
    ("chunks/end-in-last-size", ChunkStyle { last: b"0", ..PLAIN }),
    ("chunks/no-last", ChunkStyle { last: b"", ..PLAIN }),
    (
        "chunks/no-last-no-line-end",
        ChunkStyle {
            data_end: b"",
            last: b"",
            ..PLAIN
        },
    ),
    (
        "chunks/last-zeros",
        ChunkStyle {
            last: b"00000\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/last-extension",
        ChunkStyle {
            last: b"0;x\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/trailer",
        ChunkStyle {
            last: b"0\r\nX-T: 1\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/trailer-odd",
        ChunkStyle {
            last: b"0\r\nno colon\r\nX\x01: 1\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/trailer-length",
        ChunkStyle {
            last: b"0\r\nContent-Length: 3\r\nSet-Cookie: t=1\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/trailer-long",
        ChunkStyle {
            last: b"0\r\nX-T: 11111111111111111111111111111111111111111111111\r\nX-U: 1\r\nX-V: 2\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/trailer-open",
        ChunkStyle {
            last: b"0\r\nX-T: 1",
            ..PLAIN
        },
    ),
    (
        "chunks/junk-after-end",
        ChunkStyle {
            last: b"0\r\n\r\njunk",
            ..PLAIN
        },
    ),
    (
        "chunks/response-after-end",
        ChunkStyle {
            last: b"0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            ..PLAIN
        },
    ),
    (
        "chunks/empty-size",
        ChunkStyle {
            last: b"\r\n\r\n",
            ..PLAIN
        },
    ),
    (
        "chunks/letters",
        ChunkStyle {
            before: b"g",
            ..PLAIN
        },
    ),
    (
        "chunks/huge-last",
        ChunkStyle {
            last: b"7fffffffffffffff\r\nx",
            ..PLAIN
        },
    ),
    (
        "chunks/overflow-last",
        ChunkStyle {
            last: b"ffffffffffffffffff\r\nx",
            ..PLAIN
        },
    ),
];

pub(super) fn productions() -> Vec<Production> {
    let mut all: Vec<_> = LENGTHS
        .iter()
        .map(|(kind, lines)| Production::new(Group::Framing, kind, Make::Length(lines)))
        .collect();
    all.extend(
        CODINGS
            .iter()
            .map(|(kind, lines)| Production::new(Group::Framing, kind, Make::Chunked(lines, PLAIN))),
    );
    all.extend(
        UNCHUNKED
            .iter()
            .map(|(kind, lines)| Production::new(Group::Framing, kind, Make::Unchunked(lines))),
    );
    all.extend(STYLES.iter().map(|(kind, style)| {
        Production::new(
            Group::Framing,
            kind,
            Make::Chunked(&[b"Transfer-Encoding: chunked"], *style),
        )
    }));
    all
}
