//! Field lines.
use super::{Change, Group, Make, Production, Randomly, with_seed};
use crate::random::Random;

const LINES: &[(&str, &[u8])] = &[
    ("field/no-colon", b"no colon here"),
    ("field/no-colon-markup", b"<!DOCTYPE html>"),
    (
        "field/warning",
        b"PHP Warning: foo() in /var/www/index.php on line 3",
    ),
    ("field/space-in-name", b"X A: 1"),
    ("field/space-before-name", b" X-A: 1"),
    ("field/tab-before-name", b"\tX-A: 1"),
    ("field/space-before-colon", b"X-A : 1"),
    ("field/tab-before-colon", b"X-A\t: 1"),
    ("field/empty-name", b": 1"),
    ("field/control-in-name", b"X-\x01A: 1"),
    ("field/utf8-name", b"X-\xc3\xa9: 1"),
    ("field/latin1-name", b"X-\xe9: 1"),
    ("field/nul-in-name", b"X-\x00A: 1"),
    ("field/at-in-name", b"X@A: 1"),
    ("field/brackets-in-name", b"X(A): 1"),
    ("field/slash-in-name", b"X/A: 1"),
    ("field/quoted-name", b"\"X\": 1"),
    ("field/json", b"{\"a\": 1}"),
    ("field/status-line-again", b"HTTP/1.1 200 OK"),
    ("field/status-line-as-name", b"HTTP/1.1: 1"),
    ("field/control-in-value", b"X-A: a\x01b"),
    ("field/escape-in-value", b"X-A: a\x1b[0mb"),
    ("field/delete-in-value", b"X-A: a\x7fb"),
    ("field/nul-in-value", b"X-A: a\x00b"),
    ("field/carriage-return-in-value", b"X-A: a\rb"),
    ("field/carriage-return-as-line-end", b"X-A: a\rX-B: 2"),
    ("field/vertical-tab-in-value", b"X-A: a\x0bb\x0c"),
    ("field/utf8-value", b"X-A: \xc3\xa9"),
    ("field/latin1-value", b"X-A: \xe9\x80"),
    ("field/folded", b"X-A: 1\r\n folded"),
    ("field/folded-by-tab", b"X-A: 1\r\n\tfolded"),
    ("field/folded-empty", b"X-A: 1\r\n  "),
    ("field/folded-at-once", b"X-A:\r\n folded"),
    ("field/folded-often", b"X-A: 1\r\n 2\r\n\t3\r\n     4"),
    ("field/folded-bare", b"X-A: 1\n 2"),
    ("field/no-space", b"X-A:1"),
    ("field/spaces-around", b"X-A:  \t 1 \t "),
    ("field/empty-value", b"X-A:"),
    ("field/no-value-no-colon", b"X-A"),
    ("field/twice", b"X-A: 1\r\nx-a: 2"),
    ("field/open-quote", b"X-A: \"a, b"),
    ("field/two-colons", b"X-A:: 1"),
    ("field/underscore", b"x_a: 1"),
    ("field/number-name", b"1: 1"),
    ("cookie/plain", b"Set-Cookie: k{seed}=1"),
    ("cookie/control", b"Set-Cookie: k{seed}=a\x01b"),
    ("cookie/delete", b"Set-Cookie: k{seed}=a\x7fb"),
    ("cookie/utf8", b"Set-Cookie: k{seed}=\xc3\xa9"),
    ("cookie/latin1", b"Set-Cookie: k{seed}=\xe9"),
    ("cookie/tab", b"Set-Cookie: k{seed}=a\tb"),
    ("cookie/space-before-colon", b"Set-Cookie : k{seed}=1"),
    ("cookie/no-name", b"Set-Cookie: =k{seed}"),
    ("cookie/no-equals", b"Set-Cookie: k{seed}"),
    (
        "cookie/junk-attributes",
        b"Set-Cookie: k{seed}=1; expires=junk; foo; =; ;;",
    ),
    ("cookie/comma", b"Set-Cookie: k{seed}=1, other=2"),
    ("cookie/folded", b"Set-Cookie: k{seed}=1;\r\n Path=/"),
    ("cookie/nul", b"Set-Cookie: k{seed}=a\x00b"),
    ("cookie/quoted", b"Set-Cookie: k{seed}=\"a; b\""),
    ("cookie/spaces", b"Set-Cookie:   k{seed}  =  1  ;  Path = /"),
    (
        "cookie/expired",
        b"Set-Cookie: k{seed}=1; expires=Thu, 01 Jan 1970 00:00:00 GMT",
    ),
    (
        "cookie/odd-date",
        b"Set-Cookie: k{seed}=1; expires=Tue, 1-1-2099 0:0:0",
    ),
    ("cookie/max-age-zero", b"Set-Cookie: k{seed}=1; max-age=0"),
    (
        "cookie/max-age-negative",
        b"Set-Cookie: k{seed}=1; max-age=-5; expires=Tue, 01 Jan 2099 00:00:00 GMT",
    ),
    ("cookie/http-only", b"Set-Cookie: k{seed}=1; HttpOnly"),
    ("cookie/secure", b"Set-Cookie: k{seed}=1; Secure"),
    ("cookie/same-site-none", b"Set-Cookie: k{seed}=1; SameSite=None"),
    ("cookie/same-site-odd", b"Set-Cookie: k{seed}=1; SameSite=Foo"),
    ("cookie/other-domain", b"Set-Cookie: k{seed}=1; Domain=other.test"),
    ("cookie/parent-domain", b"Set-Cookie: k{seed}=1; Domain=.test"),
    ("cookie/empty-domain", b"Set-Cookie: k{seed}=1; Domain="),
    (
        "cookie/host-prefix",
        b"Set-Cookie: __Host-k{seed}=1; Path=/; Secure",
    ),
    ("cookie/secure-prefix", b"Set-Cookie: __Secure-k{seed}=1; Secure"),
    ("cookie/path", b"Set-Cookie: k{seed}=1; Path=/c"),
    ("cookie/other-path", b"Set-Cookie: k{seed}=1; Path=/elsewhere"),
    (
        "cookie/partitioned",
        b"Set-Cookie: k{seed}=1; Secure; SameSite=None; Partitioned",
    ),
    (
        "cookie/several",
        b"Set-Cookie: k{seed}a=1\r\nSet-Cookie: k{seed}b=2\r\nset-cookie: k{seed}a=3",
    ),
    ("cookie/utf8-name", b"Set-Cookie: \xc3\xa9k{seed}=1"),
    ("cookie/equals-in-value", b"Set-Cookie: k{seed}=a=b=c"),
    ("caching/no-store", b"Cache-Control: no-store"),
    (
        "caching/long",
        b"Cache-Control: public, max-age=31536000, immutable",
    ),
    ("caching/etag-bare", b"ETag: abc"),
    ("caching/etag-weak", b"ETag: W/\"abc\""),
    ("caching/etag-odd", b"ETag: \"a\"b\""),
    ("caching/last-modified-odd", b"Last-Modified: yesterday"),
    ("caching/expires-zero", b"Expires: 0"),
    ("caching/vary-star", b"Vary: *"),
    ("caching/vary-odd", b"Vary: Accept-Encoding,,User-Agent, "),
    ("caching/age-odd", b"Age: -5"),
    ("caching/age", b"Age: 100"),
    ("caching/date-odd", b"Date: now"),
    ("caching/date-old", b"Date: Thu, 01 Jan 1970 00:00:00 GMT"),
    ("caching/no-transform", b"Cache-Control: no-transform"),
    ("caching/warning", b"Warning: 110 - \"Response is stale\""),
    ("caching/pragma", b"Pragma: no-cache"),
    (
        "connection/keep-alive",
        b"Connection: keep-alive\r\nKeep-Alive: timeout=5, max=100",
    ),
    ("connection/close", b"Connection: close"),
    ("connection/names-a-field", b"Connection: X-Hop\r\nX-Hop: 1"),
    ("connection/names-content-type", b"Connection: Content-Type"),
    ("connection/odd", b"Connection: keep-alive, close, \x01"),
    ("connection/proxy", b"Proxy-Connection: keep-alive"),
    (
        "connection/proxy-authenticate",
        b"Proxy-Authenticate: Basic realm=x",
    ),
    (
        "connection/upgrade-offered",
        b"Upgrade: h2c, h2\r\nConnection: Upgrade",
    ),
    ("connection/via", b"Via: 1.1 cdn.test, 1.0 (odd"),
    ("connection/trailer", b"Trailer: X-T"),
    ("connection/te", b"TE: trailers"),
    ("policy/csp", b"Content-Security-Policy: default-src 'none'"),
    ("policy/csp-odd", b"Content-Security-Policy: ;;, default-src \xe9"),
    ("policy/frame-deny", b"X-Frame-Options: DENY"),
    ("policy/frame-odd", b"X-Frame-Options: ALLOWALL, SAMEORIGIN"),
    ("policy/corp", b"Cross-Origin-Resource-Policy: same-origin"),
    ("policy/clear-site-data", b"Clear-Site-Data: \"cache\""),
    ("policy/hsts-odd", b"Strict-Transport-Security: max-age=0; junk"),
    ("policy/alt-svc", b"Alt-Svc: h3=\":443\"; ma=60"),
    ("policy/server-timing", b"Server-Timing: db;dur=5"),
    ("policy/report-to", b"Report-To: {\"group\":\"x\""),
    (
        "policy/link-preload",
        b"Link: </none.css>; rel=preload; as=style, <",
    ),
    ("policy/link-odd", b"Link: junk; rel"),
    ("policy/content-md5", b"Content-MD5: AAAA"),
    ("policy/digest", b"Digest: sha-256=AAAA"),
    (
        "policy/own-names",
        b"Proxy-Status: other; error=x\r\nX-Longhaul: image=low",
    ),
    (
        "policy/access-control",
        b"Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Origin: *",
    ),
    ("policy/source-map", b"SourceMap: /none.map"),
    ("policy/referrer", b"Referrer-Policy: no-referrer"),
];

/// Bytes that no name or value should contain, and some that they may.
const ODD: &[u8] =
    b"\x01\x02\x07\x08\x0b\x0c\x0e\x1b\x1f\x7f\x80\xa0\xc3\xe9\xff\t \"'(),;<=>@[]{}|~^`%&*+!#$";

fn random_name(random: &mut Random, _: u64) -> Change {
    let mut name = b"X-Random".to_vec();
    for _ in 0..=random.below(2) {
        let at = random.below(name.len() + 1);
        name.insert(at, *random.pick(ODD));
    }
    Change::Fields(vec![[&name[..], b": 1"].concat()])
}

fn random_value(random: &mut Random, _: u64) -> Change {
    let mut value = b"some value".to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(value.len() + 1);
        value.insert(at, *random.pick(ODD));
    }
    Change::Fields(vec![[b"X-Random: ", &value[..]].concat()])
}

fn random_cookie(random: &mut Random, seed: u64) -> Change {
    let mut line = with_seed(b"k{seed}=value; Path=/; SameSite=Lax", seed);
    let tag = 1 + seed.to_string().len();
    for _ in 0..=random.below(2) {
        let at = tag + random.below(line.len() - tag);
        line.insert(at, *random.pick(ODD));
    }
    Change::Fields(vec![[b"Set-Cookie: ", &line[..]].concat()])
}

fn many(random: &mut Random, _: u64) -> Change {
    let number = *random.pick(&[90, 130, 200, 300, 500, 1000, 2000]);
    Change::Fields(
        (0..number)
            .map(|line| format!("X-{line}: {line}").into_bytes())
            .collect(),
    )
}

fn long(random: &mut Random, _: u64) -> Change {
    let length = *random.pick(&[5_000, 10_000, 20_000, 70_000, 100_000, 200_000, 250_000, 300_000]);
    Change::Fields(vec![[b"X-Long: ", &vec![b'a'; length][..]].concat()])
}

fn long_name(random: &mut Random, _: u64) -> Change {
    let length = *random.pick(&[300, 3_000, 70_000]);
    Change::Fields(vec![[&vec![b'a'; length][..], b": 1"].concat()])
}

fn many_cookies(random: &mut Random, seed: u64) -> Change {
    let number = *random.pick(&[20, 60]);
    let line = |index: usize| format!("Set-Cookie: k{seed}n{index}={}", "v".repeat(900)).into_bytes();
    Change::Fields((0..number).map(line).collect())
}

const RANDOM: &[(&str, Randomly)] = &[
    ("field/random-name", random_name),
    ("field/random-name-2", random_name),
    ("field/random-value", random_value),
    ("field/random-value-2", random_value),
    ("cookie/random", random_cookie),
    ("cookie/random-2", random_cookie),
    ("cookie/many", many_cookies),
    ("field/many", many),
    ("field/long", long),
    ("field/long-name", long_name),
];

pub(super) fn productions() -> Vec<Production> {
    let mut all: Vec<_> = LINES
        .iter()
        .map(|(kind, line)| Production::new(Group::Field, kind, Make::Field(line)))
        .collect();
    all.extend(
        RANDOM
            .iter()
            .map(|(kind, make)| Production::new(Group::Field, kind, Make::Random(*make))),
    );
    let first = Make::Always(|| Change::FieldsFirst(vec![b" X-A: 1".to_vec()]));
    all.push(Production::new(Group::Field, "field/first-folded", first));
    let first = Make::Always(|| Change::FieldsFirst(vec![b"junk".to_vec()]));
    all.push(Production::new(Group::Field, "field/first-no-colon", first));
    all
}
