//! TLS of origins: versions, cipher suites, chains, and how connections begin and end.
use super::{Group, Make, Production};

/// One way of a server to speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsWay {
    /// Its name.
    pub kind: &'static str,
    /// The certificates that the server sends, by their names in `tls/origin.py`.
    pub chain: &'static [&'static str],
    /// The key of the first one.
    pub key: &'static str,
    /// Lowest and highest version.
    pub versions: [&'static str; 2],
    /// Cipher suites of TLS 1.2 and older, as OpenSSL calls them.
    pub ciphers: &'static str,
    /// The only group; all that OpenSSL has, if it is empty.
    pub group: &'static str,
    /// Protocols of ALPN; the server has no ALPN if there is none.
    pub alpn: &'static [&'static str],
    /// What else the server does, in words.
    pub does: &'static str,
    /// What it sends instead of TLS when it got the ClientHello.
    pub instead: Option<&'static [u8]>,
}

const fn way(kind: &'static str) -> TlsWay {
    TlsWay {
        kind,
        chain: &["leaf", "between"],
        key: "leaf",
        versions: ["TLSv1_2", "TLSv1_3"],
        ciphers: "DEFAULT",
        group: "",
        alpn: &["http/1.1"],
        does: "",
        instead: None,
    }
}

const fn only(kind: &'static str, version: &'static str) -> TlsWay {
    TlsWay {
        versions: [version, version],
        ..way(kind)
    }
}

/// A suite of TLS 1.2.
const fn suite(kind: &'static str, ciphers: &'static str) -> TlsWay {
    TlsWay {
        ciphers,
        ..only(kind, "TLSv1_2")
    }
}

/// A suite of TLS 1.2 with a certificate for RSA.
const fn rsa(kind: &'static str, ciphers: &'static str) -> TlsWay {
    TlsWay {
        chain: &["leaf-rsa", "between"],
        key: "rsa",
        ..suite(kind, ciphers)
    }
}

const fn chain(kind: &'static str, chain: &'static [&'static str]) -> TlsWay {
    TlsWay { chain, ..way(kind) }
}

/// A chain that nobody may accept.
const fn bad(kind: &'static str, chain: &'static [&'static str]) -> TlsWay {
    TlsWay {
        chain,
        key: "bad",
        ..way(kind)
    }
}

const fn keyed(kind: &'static str, chain: &'static [&'static str], key: &'static str) -> TlsWay {
    TlsWay {
        chain,
        key,
        ..way(kind)
    }
}

const fn group(kind: &'static str, group: &'static str) -> TlsWay {
    TlsWay { group, ..way(kind) }
}

const fn alpn(kind: &'static str, alpn: &'static [&'static str]) -> TlsWay {
    TlsWay { alpn, ..way(kind) }
}

const fn does(kind: &'static str, does: &'static str) -> TlsWay {
    TlsWay { does, ..way(kind) }
}

const fn instead(kind: &'static str, bytes: &'static [u8]) -> TlsWay {
    TlsWay {
        instead: Some(bytes),
        ..way(kind)
    }
}

/// All ways; the index of one is in the name of its hosts.
pub const TLS_WAYS: &[TlsWay] = &[
    way("tls/usual"),
    only("tls/version-1.0", "TLSv1"),
    only("tls/version-1.1", "TLSv1_1"),
    only("tls/version-1.2", "TLSv1_2"),
    only("tls/version-1.3", "TLSv1_3"),
    suite("suite/ecdsa-aes-128-gcm", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    suite("suite/ecdsa-chacha", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    suite("suite/ecdsa-aes-128-cbc", "ECDHE-ECDSA-AES128-SHA"),
    suite("suite/ecdsa-aes-256-cbc-sha384", "ECDHE-ECDSA-AES256-SHA384"),
    suite("suite/ecdsa-aes-128-ccm", "ECDHE-ECDSA-AES128-CCM"),
    rsa("suite/rsa-aes-256-gcm", "ECDHE-RSA-AES256-GCM-SHA384"),
    rsa("suite/rsa-aes-128-cbc", "ECDHE-RSA-AES128-SHA"),
    rsa("suite/rsa-aes-256-cbc", "ECDHE-RSA-AES256-SHA"),
    rsa("suite/rsa-aes-128-cbc-sha256", "ECDHE-RSA-AES128-SHA256"),
    rsa("suite/rsa-key-aes-128-gcm", "AES128-GCM-SHA256"),
    rsa("suite/rsa-key-aes-256-gcm", "AES256-GCM-SHA384"),
    rsa("suite/rsa-key-aes-128-cbc", "AES128-SHA"),
    rsa("suite/rsa-key-aes-256-cbc", "AES256-SHA"),
    rsa("suite/dhe-aes-128-gcm", "DHE-RSA-AES128-GCM-SHA256"),
    rsa("suite/camellia", "CAMELLIA128-SHA"),
    group("group/x25519", "X25519"),
    group("group/p-256", "prime256v1"),
    group("group/p-384", "secp384r1"),
    group("group/p-521", "secp521r1"),
    group("group/x448", "X448"),
    chain("chain/no-intermediate", &["leaf"]),
    chain("chain/no-intermediate-named", &["leaf-aia"]),
    chain("chain/root-instead-of-intermediate", &["leaf", "root"]),
    chain("chain/with-root", &["leaf", "between", "root"]),
    chain("chain/wrong-order", &["leaf", "root", "between"]),
    chain("chain/leaf-twice", &["leaf", "leaf", "between"]),
    chain("chain/intermediate-twice", &["leaf", "between", "between"]),
    chain("chain/unrelated-first", &["leaf", "unknown-root", "between"]),
    chain(
        "chain/unrelated-behind",
        &["leaf", "between", "bad-good", "bad-self"],
    ),
    chain(
        "chain/long",
        &[
            "leaf",
            "root",
            "root",
            "root",
            "root",
            "root",
            "root",
            "unknown-root",
            "bad-self",
            "bad-name",
            "bad-leaf-over",
            "between",
        ],
    ),
    chain("chain/direct", &["leaf-direct"]),
    chain("chain/direct-extra-intermediate", &["leaf-direct", "between"]),
    chain("chain/intermediate-over", &["leaf", "between-over"]),
    chain(
        "chain/intermediate-over-and-good",
        &["leaf", "between-over", "between"],
    ),
    chain("chain/intermediate-narrow", &["leaf", "between-narrow"]),
    chain(
        "chain/intermediate-no-authority",
        &["leaf", "between-no-authority"],
    ),
    chain("chain/leaf-is-authority", &["leaf-authority", "between"]),
    chain("chain/leaf-without-usage", &["leaf-no-usage", "between"]),
    chain("chain/leaf-without-subject", &["leaf-subject-empty", "between"]),
    chain("chain/leaf-sha1", &["leaf-sha1", "between"]),
    chain("chain/leaf-sha512", &["leaf-sha512", "between"]),
    chain("chain/leaf-long", &["leaf-long", "between"]),
    chain(
        "chain/leaf-unknown-critical",
        &["leaf-unknown-extension", "between"],
    ),
    keyed("chain/leaf-rsa", &["leaf-rsa", "between"], "rsa"),
    keyed("chain/leaf-p384", &["leaf-p384", "between"], "p384"),
    keyed("chain/leaf-p521", &["leaf-p521", "between"], "p521"),
    keyed("chain/leaf-ed25519", &["leaf-ed25519", "between"], "ed25519"),
    bad("bad/over", &["bad-leaf-over", "between"]),
    bad("bad/other-name", &["bad-name", "between"]),
    bad("bad/no-alternative-name", &["bad-no-name", "between"]),
    bad("bad/for-clients", &["bad-usage", "between"]),
    bad("bad/self-signed", &["bad-self"]),
    bad("bad/self-signed-with-authority", &["bad-self", "between", "root"]),
    bad("bad/unknown-authority", &["bad-unknown", "unknown-root"]),
    bad("bad/below-a-leaf", &["bad-below-leaf", "bad-good", "between"]),
    bad("bad/intermediate-over", &["bad-below", "bad-over"]),
    bad("bad/intermediate-narrow", &["bad-below", "bad-narrow"]),
    bad(
        "bad/intermediate-no-authority",
        &["bad-below", "bad-no-authority"],
    ),
    alpn("alpn/none", &[]),
    alpn("alpn/http-1.0", &["http/1.0"]),
    alpn("alpn/unknown", &["what"]),
    alpn("alpn/unknown-and-http-1.1", &["what", "http/1.1"]),
    // The server negotiates HTTP/2 and speaks HTTP/1.1.
    alpn("alpn/http-2-is-http-1.1", &["h2"]),
    does("ending/abrupt", "abrupt"),
    does("ending/no-tickets", "no-tickets"),
    does("ending/after-handshake", "closes-after-handshake"),
    does("client/asked", "asks"),
    does("client/demanded", "demands"),
    TlsWay {
        versions: ["TLSv1_2", "TLSv1_2"],
        ..does("client/asked-1.2", "asks")
    },
    TlsWay {
        versions: ["TLSv1_2", "TLSv1_2"],
        ..does("client/demanded-1.2", "demands")
    },
    TlsWay {
        versions: ["TLSv1_2", "TLSv1_2"],
        ..does("ending/abrupt-1.2", "abrupt")
    },
    instead("instead/nothing", b""),
    instead("instead/alert-handshake-failure", b"\x15\x03\x03\0\x02\x02\x28"),
    instead("instead/alert-protocol-version", b"\x15\x03\x03\0\x02\x02\x46"),
    instead("instead/alert-internal-error", b"\x15\x03\x03\0\x02\x02\x50"),
    instead("instead/alert-unrecognized-name", b"\x15\x03\x03\0\x02\x02\x70"),
    instead("instead/alert-close-notify", b"\x15\x03\x03\0\x02\x01\x00"),
    instead("instead/alert-warning", b"\x15\x03\x03\0\x02\x01\x70"),
    instead("instead/alert-cut", b"\x15\x03\x03\0\x02\x02"),
    instead(
        "instead/http-400",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    ),
    instead("instead/junk", b"junk that is no record at all"),
    instead("instead/mail-server", b"220 mail.test ESMTP\r\n"),
    TlsWay {
        does: "reset",
        ..instead("instead/reset", b"")
    },
];

pub(super) fn productions() -> Vec<Production> {
    let make = |kind, way, until_close| Production::new(Group::Whole, kind, Make::Tls(way, until_close));
    let mut all = Vec::new();
    for (index, way) in TLS_WAYS.iter().enumerate() {
        all.push(make(way.kind, index, false));
        // Answers without a length depend on how TLS ends.
        match way.kind {
            "tls/usual" => all.push(make("ending/without-length", index, true)),
            "ending/abrupt" => all.push(make("ending/abrupt-without-length", index, true)),
            "ending/abrupt-1.2" => all.push(make("ending/abrupt-without-length-1.2", index, true)),
            _ => {}
        }
    }
    all
}
