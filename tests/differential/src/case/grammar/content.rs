//! Media types, charsets and content codings.
use super::{super::bodies::Recipe, Change, Group, Make, Mode, Production};

/// Media types of the plain content.
const TYPES: &[(&str, &[u8])] = &[
    ("type/none", b""),
    ("type/no-slash", b"text"),
    ("type/upper-case", b"TEXT/HTML; CHARSET=UTF-8"),
    ("type/unknown", b"unknown/unknown"),
    ("type/stars", b"*/*"),
    ("type/octet-stream", b"application/octet-stream"),
    ("type/text-plain", b"text/plain"),
    ("type/text-html", b"text/html"),
    ("type/comma", b"text/html, text/plain"),
    ("type/two-lines", b"text/plain\r\nContent-Type: text/html"),
    ("type/charset-empty", b"text/html; charset="),
    ("type/charset-unknown", b"text/html; charset=foo"),
    ("type/charset-quoted", b"text/html; charset=\"utf-8\""),
    ("type/charset-single-quoted", b"text/html; charset='utf-8'"),
    ("type/charset-space", b"text/html; charset = utf-8"),
    ("type/charset-no-semicolon", b"text/html charset=utf-8"),
    (
        "type/charset-twice",
        b"text/html; charset=utf-8; charset=iso-8859-1",
    ),
    ("type/parameter-odd", b"text/html;;; =; x; charset=utf-8"),
    ("type/xhtml", b"application/xhtml+xml"),
    ("type/svg", b"image/svg+xml"),
    ("type/pdf", b"application/pdf"),
    ("type/multipart-replace", b"multipart/x-mixed-replace; boundary=x"),
    ("type/event-stream", b"text/event-stream"),
    ("type/json", b"application/json"),
    ("type/control", b"text/html\x01"),
    ("type/nosniff", b"text/plain\r\nX-Content-Type-Options: nosniff"),
    ("type/nosniff-none", b"\r\nX-Content-Type-Options: nosniff"),
    (
        "type/nosniff-odd",
        b"text/plain\r\nX-Content-Type-Options: , nosniff",
    ),
];

/// Documents: type and content.
const DOCUMENTS: &[(&str, &[u8], &[u8])] = &[
    ("charset/latin1", b"text/html; charset=iso-8859-1", b"<p>caf\xe9 \x80"),
    ("charset/header-beats-meta", b"text/html; charset=iso-8859-1", b"<meta charset=utf-8><p>caf\xc3\xa9"),
    ("charset/meta", b"text/html", b"<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2"),
    ("charset/meta-http-equiv", b"text/html", b"<meta http-equiv=content-type content='text/html; charset=koi8-r'><p>\xf0\xd2\xc9"),
    ("charset/meta-late", b"text/html", b"<!--xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx--><meta charset=shift_jis><p>\x93\xfa\x96\x7b"),
    ("charset/bom-utf8", b"text/html; charset=iso-8859-1", b"\xef\xbb\xbf<p>caf\xc3\xa9"),
    ("charset/bom-utf16le", b"text/html", b"\xff\xfe<\0p\0>\0\xe9\0"),
    ("charset/bom-utf16be", b"text/html; charset=utf-8", b"\xfe\xff\0<\0p\0>\0\xe9"),
    ("charset/utf16-no-bom", b"text/html; charset=utf-16", b"<\0p\0>\0\xe9\0"),
    ("charset/meta-utf16", b"text/html", b"<meta charset=utf-16><p>caf\xc3\xa9"),
    ("charset/shift-jis", b"text/html; charset=Shift_JIS", b"<p>\x93\xfa\x96\x7b\x8c\xea"),
    ("charset/gb18030", b"text/html; charset=gb2312", b"<p>\xd6\xd0\xce\xc4"),
    ("charset/iso-2022-jp", b"text/html; charset=iso-2022-jp", b"<p>\x1b$B4A;z\x1b(B"),
    ("charset/utf7", b"text/html; charset=utf-7", b"<p>caf+AOk-"),
    ("charset/x-user-defined", b"text/html; charset=x-user-defined", b"<p>\x80\xff"),
    ("charset/none-latin1", b"text/html", b"<p>caf\xe9"),
    ("charset/none-utf8", b"text/html", b"<p>caf\xc3\xa9"),
    ("charset/invalid-utf8", b"text/html; charset=utf-8", b"<p>a\xffb\xc3"),
    ("charset/nul", b"text/html; charset=utf-8", b"<p>a\0b"),
    ("charset/text-plain", b"text/plain; charset=windows-1252", b"caf\xe9 \x80"),
    ("charset/xml-declaration", b"application/xhtml+xml", b"<?xml version='1.0' encoding='iso-8859-1'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>caf\xe9</p></body></html>"),
    ("charset/empty-document", b"text/html", b""),
    ("charset/no-type-html", b"", b"<html><body><p>sniffed"),
    ("charset/no-type-text", b"", b"just text"),
    ("charset/no-type-binary", b"", b"\x01\x02\x03\x04"),
    ("charset/quirks", b"text/html", b"<p>no doctype"),
    ("charset/doctype-late", b"text/html", b"text<!doctype html><p>late"),
    ("charset/meta-refresh", b"text/html", b"<meta http-equiv=refresh content='0;url=/ok'><p>before"),
    ("charset/base", b"text/html", b"<base href=/other/><p>with a base"),
    ("charset/script-writes", b"text/html", b"<script>document.write('<p>written')</script>"),
    ("charset/stray-end", b"text/html", b"</html></body><p>after the end<plaintext>&amp;"),
    ("charset/frameset", b"text/html", b"<frameset cols=*><frame src=/ok></frameset>"),
    ("charset/image", b"text/html", b"<img src=/ok.gif alt=none><link rel=stylesheet href=/ok.css><script src=/ok.js></script><p>objects"),
];

const CODINGS: &[(&str, &[u8], Recipe)] = &[
    ("coding/gzip", b"gzip", Recipe::Gzip),
    ("coding/x-gzip", b"x-gzip", Recipe::Gzip),
    ("coding/upper-case", b"GZIP", Recipe::Gzip),
    ("coding/spaces", b"  gzip  ", Recipe::Gzip),
    ("coding/gzip-named", b"gzip", Recipe::GzipNamed),
    ("coding/gzip-two-members", b"gzip", Recipe::GzipTwice),
    ("coding/gzip-cut-5", b"gzip", Recipe::GzipCut(5)),
    ("coding/gzip-cut-12", b"gzip", Recipe::GzipCut(12)),
    ("coding/gzip-cut-40", b"gzip", Recipe::GzipCut(40)),
    ("coding/gzip-no-trailer", b"gzip", Recipe::GzipShort(8)),
    ("coding/gzip-half-trailer", b"gzip", Recipe::GzipShort(4)),
    ("coding/gzip-short-by-one", b"gzip", Recipe::GzipShort(1)),
    ("coding/gzip-short-by-twenty", b"gzip", Recipe::GzipShort(20)),
    ("coding/gzip-wrong-sum", b"gzip", Recipe::GzipWrongSum),
    ("coding/gzip-junk-behind", b"gzip", Recipe::GzipTail(b"junk")),
    ("coding/gzip-zeros-behind", b"gzip", Recipe::GzipTail(&[0; 100])),
    ("coding/gzip-line-end-behind", b"gzip", Recipe::GzipTail(b"\r\n")),
    ("coding/gzip-damaged", b"gzip", Recipe::GzipDamaged),
    ("coding/gzip-label-plain", b"gzip", Recipe::Plain),
    ("coding/gzip-label-empty", b"gzip", Recipe::Empty),
    ("coding/gzip-label-zlib", b"gzip", Recipe::Zlib),
    ("coding/gzip-label-deflate", b"gzip", Recipe::Deflate),
    ("coding/gzip-label-brotli", b"gzip", Recipe::Brotli),
    ("coding/deflate-zlib", b"deflate", Recipe::Zlib),
    ("coding/deflate-raw", b"deflate", Recipe::Deflate),
    ("coding/deflate-cut", b"deflate", Recipe::ZlibCut(30)),
    ("coding/deflate-label-plain", b"deflate", Recipe::Plain),
    ("coding/deflate-label-gzip", b"deflate", Recipe::Gzip),
    ("coding/deflate-label-empty", b"deflate", Recipe::Empty),
    ("coding/x-deflate", b"x-deflate", Recipe::Zlib),
    ("coding/gzip-twice", b"gzip, gzip", Recipe::GzipInGzip),
    (
        "coding/gzip-twice-two-lines",
        b"gzip\r\nContent-Encoding: gzip",
        Recipe::GzipInGzip,
    ),
    ("coding/gzip-twice-once", b"gzip, gzip", Recipe::Gzip),
    ("coding/identity", b"identity", Recipe::Plain),
    ("coding/none", b"none", Recipe::Plain),
    ("coding/charset", b"utf-8", Recipe::Plain),
    ("coding/7bit", b"7bit", Recipe::Plain),
    ("coding/unknown", b"foo", Recipe::Plain),
    ("coding/compress", b"compress", Recipe::Plain),
    ("coding/aws-chunked", b"aws-chunked", Recipe::Plain),
    ("coding/empty-label", b"", Recipe::Plain),
    ("coding/comma-behind", b"gzip,", Recipe::Gzip),
    ("coding/comma-before", b",gzip", Recipe::Gzip),
    ("coding/identity-gzip", b"identity, gzip", Recipe::Gzip),
    ("coding/gzip-identity", b"gzip, identity", Recipe::Gzip),
    ("coding/unknown-gzip", b"foo, gzip", Recipe::Gzip),
    ("coding/parameter", b"gzip;q=1", Recipe::Gzip),
    ("coding/control", b"gzip\x01", Recipe::Gzip),
    ("coding/brotli", b"br", Recipe::Brotli),
    ("coding/brotli-junk-behind", b"br", Recipe::BrotliTail),
    ("coding/brotli-cut", b"br", Recipe::BrotliCut),
    ("coding/brotli-label-plain", b"br", Recipe::Plain),
    ("coding/brotli-label-empty", b"br", Recipe::Empty),
    ("coding/brotli-gzip", b"br, gzip", Recipe::Gzip),
    ("coding/zstd", b"zstd", Recipe::Zstd),
    ("coding/zstd-two-frames", b"zstd", Recipe::ZstdTwice),
    ("coding/zstd-cut", b"zstd", Recipe::ZstdCut),
    ("coding/zstd-junk-behind", b"zstd", Recipe::ZstdTail),
    ("coding/zstd-label-plain", b"zstd", Recipe::Plain),
    ("coding/zstd-label-empty", b"zstd", Recipe::Empty),
    ("coding/dictionary", b"dcb", Recipe::Plain),
];

pub(super) fn productions() -> Vec<Production> {
    let mut all: Vec<_> = TYPES
        .iter()
        .map(|(kind, value)| Production::new(Group::Content, kind, Make::Type(value)))
        .collect();
    let documents = DOCUMENTS
        .iter()
        .map(|(kind, value, body)| Production::new(Group::Content, kind, Make::Document(value, body)));
    all.extend(documents.map(|production| production.seen_by(Mode::Frame)));
    let coded = |(kind, label, recipe): &(&'static str, &'static [u8], Recipe)| {
        Production::new(Group::Coding, kind, Make::Coded(label, *recipe))
    };
    all.extend(CODINGS.iter().map(coded));
    let picture = Make::Always(|| Change::Content(b"image/svg+xml".to_vec(), SVG.to_vec()));
    all.push(Production::new(Group::Content, "image/svg", picture).seen_by(Mode::Image));
    let broken = Make::Always(|| Change::Content(b"image/gif".to_vec(), b"GIF89a\x03\0\x02\0".to_vec()));
    all.push(Production::new(Group::Content, "image/cut", broken).seen_by(Mode::Image));
    let text = Make::Always(|| Change::Content(b"image/png".to_vec(), b"no picture at all".to_vec()));
    all.push(Production::new(Group::Content, "image/text", text).seen_by(Mode::Image));
    all
}

const SVG: &[u8] =
    b"<svg xmlns='http://www.w3.org/2000/svg' width='7' height='5'><rect width='3' height='3'/></svg>";
