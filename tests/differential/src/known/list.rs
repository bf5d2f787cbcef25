//! The differences that stay.
use super::{ANY, Known, Seen};
use crate::Scheme;

/// What shows the content of a response.
const CONTENT: &[&str] = &[
    "body", "length", "text", "markup", "title", "mode", "ran", "rules", "size",
];

/// All differences that stay; `docs/COMPATIBILITY.md` lists the same.
pub const KNOWN: &[Known] = &[
    Known {
        aspects: &["fields.via"],
        what: "`Via` is there",
        reason: "Each proxy adds `Via` (RFC 9110 section 7.6.3).",
        ..ANY
    },
    Known {
        aspects: &["fields.date"],
        seen: Seen::Added,
        what: "`Date` is there",
        reason: "A response without `Date` gets one (RFC 9110 section 6.6.1).",
        ..ANY
    },
    Known {
        aspects: &["reason"],
        scheme: Some(Scheme::Https),
        seen: Seen::NoPhrase,
        what: "`statusText` is empty over https",
        reason: "The browser speaks HTTP/2 with the agent, which has no reason phrases.",
        ..ANY
    },
    Known {
        aspects: &["fields.content-encoding"],
        seen: Seen::Gone,
        what: "`Content-Encoding` is missing",
        reason: "Bodies cross the hop in a coding of Longhaul's own, and the browser gets them decoded.",
        ..ANY
    },
    Known {
        aspects: &["fields.content-length"],
        what: "`Content-Length` is missing, there or another",
        reason: "The length is that of the body that the browser gets, which is decoded; the origin's may be invalid or missing.",
        ..ANY
    },
    Known {
        aspects: &["fields.transfer-encoding"],
        seen: Seen::Gone,
        what: "`Transfer-Encoding` is missing",
        reason: "How the end of the body is marked belongs to one connection (RFC 9112 section 6.1).",
        ..ANY
    },
    Known {
        aspects: &["fields.connection"],
        seen: Seen::Gone,
        what: "`Connection` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.keep-alive"],
        seen: Seen::Gone,
        what: "`Keep-Alive` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.proxy-connection"],
        seen: Seen::Gone,
        what: "`Proxy-Connection` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.upgrade"],
        seen: Seen::Gone,
        what: "`Upgrade` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.te"],
        seen: Seen::Gone,
        what: "`TE` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.trailer"],
        seen: Seen::Gone,
        what: "`Trailer` is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.x-hop"],
        kinds: &["connection/names-a-field"],
        seen: Seen::Gone,
        what: "A field that `Connection` names is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["fields.alt-svc"],
        seen: Seen::Gone,
        what: "`Alt-Svc` is missing",
        reason: "`Alt-Svc` would lead the browser past the agent.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["status/407-of-origin"],
        scheme: Some(Scheme::Http),
        seen: Seen::Lenient,
        what: "Status 407 of an origin over http is shown",
        reason: "A browser rejects it if it knows of no proxy, and cannot tell whose it is behind one.",
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "status/zero",
            "status/99",
            "status/two-digits",
            "status/letters-in-code",
            "status/four-digits",
            "status/1000",
            "status/70000",
            "http2/status-0",
            "http2/status-20",
            "http2/status-099",
            "http2/status-1000",
        ],
        seen: Seen::Refused,
        what: "A status below 100 or above 999 is an error page",
        reason: "No valid response can carry it on.",
        ..ANY
    },
    Known {
        aspects: &["fields.proxy-authenticate"],
        seen: Seen::Gone,
        what: "`Proxy-Authenticate` of an origin is missing",
        reason: CONNECTION,
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["coding/brotli", "coding/zstd"],
        seen: Seen::Lenient,
        what: "Brotli and Zstandard load over http and for ranges, too",
        reason: "Browsers do not ask for them there, because of old proxies and because they count coded bytes; the gateway decodes them.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["length/twice"],
        seen: Seen::Lenient,
        what: "Two lengths that are equal as numbers load",
        reason: "Browsers compare them as text. There is only one way to read them.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["chunks/tab-behind"],
        seen: Seen::Lenient,
        what: "A tab behind the size of a chunk loads",
        reason: "It is white space (RFC 9112 section 7.1.1), and there is only one way to read it.",
        ..ANY
    },
    Known {
        aspects: &["fields.proxy-status"],
        seen: Seen::Gone,
        what: "`Proxy-Status` of an origin is missing",
        reason: "It would pass for the agent's own.",
        ..ANY
    },
    Known {
        aspects: &["fields.x-longhaul"],
        seen: Seen::Gone,
        what: "`X-Longhaul` of an origin is missing",
        reason: "It would pass for the agent's own.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["http2/reset-internal-once"],
        seen: Seen::Lenient,
        what: "A GET whose HTTP/2 stream ends with INTERNAL_ERROR loads if the second try does",
        reason: "The gateway repeats a GET, a browser leaves it to the user.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["http2/interim-101"],
        seen: Seen::Lenient,
        what: "A response over HTTP/2 that status 101 precedes loads",
        reason: "The status has no meaning there (RFC 9113 section 8.6), and nothing else could be meant.",
        ..ANY
    },
    Known {
        aspects: &["fields.*"],
        kinds: &["field/", "type/control"],
        seen: Seen::Spaces,
        what: "A control character in a field is a space",
        reason: "No valid field contains it (RFC 9110 section 5.5).",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "transfer/and-length",
            "transfer/and-two-lengths",
            "transfer/odd-name-with-chunks",
            "transfer/binary",
            "transfer/chunked-chunked",
            "transfer/gzip",
            "transfer/parameter",
            "transfer/quoted",
            "transfer/two-lines",
            "transfer/unknown",
            "transfer/vertical-tab",
        ],
        seen: Seen::Refused,
        what: "A length beside chunks, and a transfer coding that is not `chunked` or `identity`, is an error page",
        reason: "Two readers could read different bodies (RFC 9112 section 6.3), and no coding was asked for.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "http2/",
            "type/control",
            "coding/control",
            "alpn/http-2-is-http-1.1",
        ],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A host whose HTTP/2 the browser does not accept loads if its HTTP/1.1 is sound",
        reason: "The gateway asks such a host over HTTP/1.1.",
    },
    Known {
        aspects: &["fields.*"],
        kinds: &["http2/status-101"],
        what: "The fields of a response over HTTP/2 with status 101 are those of its HTTP/1.1",
        reason: "The gateway asks such a host over HTTP/1.1.",
        ..ANY
    },
    Known {
        aspects: &["reason"],
        scheme: Some(Scheme::Http),
        seen: Seen::Phrase,
        what: "`statusText` over http is that of the standard, or empty",
        reason: "Reason phrases have no meaning (RFC 9110 section 15.1), and not all their bytes may be sent on.",
        ..ANY
    },
    Known {
        aspects: &["outcome", "events"],
        kinds: &[
            "field/many",
            "field/long",
            "field/long-name",
            "http2/long-100",
            "http2/long-240",
        ],
        seen: Seen::Refused,
        what: "A head of more than 64 KiB or 512 fields is an error page",
        reason: "This is the largest that crosses the hop.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "form/head-ends-",
            "form/bare-carriage-returns",
            "form/two-carriage-returns",
        ],
        scheme: Some(Scheme::Http),
        seen: Seen::Refused,
        what: "A head over http that breaks off is an error page",
        reason: "The message is not complete (RFC 9112 section 8); over https browsers refuse it, too.",
    },
    Known {
        aspects: CONTENT,
        kinds: &["http2/status-204-with-body", "http2/status-304-with-body"],
        what: "The body of a response over HTTP/2 with status 204 or 304 is missing",
        reason: "Such responses have none (RFC 9110 section 6.4.1), and HTTP/1.1 cannot carry one.",
        ..ANY
    },
    Known {
        aspects: CONTENT,
        kinds: &["http2/head-only"],
        what: "A response over HTTP/2 that ends with its head although it has a length has the body of its HTTP/1.1",
        reason: "The gateway asks such a host over HTTP/1.1.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["http2/reset-half-no-error", "http2/length-"],
        seen: Seen::Refused,
        what: "A body over HTTP/2 of another length than announced, or with an invalid length, is broken",
        reason: "The response is malformed (RFC 9113 section 8.1.1).",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "http2/connection",
            "http2/keep-alive",
            "http2/proxy-connection",
            "http2/te",
            "http2/transfer-encoding",
            "http2/upgrade",
        ],
        seen: Seen::Refused,
        what: "A POST that is answered over HTTP/2 with a field of connections is an error page, the first time",
        reason: "The response is malformed (RFC 9113 section 8.2.2), and the origin may have processed the request.",
        ..ANY
    },
    Known {
        aspects: CONTENT,
        kinds: &["coding/gzip-two-members"],
        what: "All members of a body in gzip are there",
        reason: "A gzip file is a series of members (RFC 1952 section 2.2); Chromium reads only the first.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["whole/only-100"],
        seen: Seen::Refused,
        what: "An interim response without another is an error page for HEAD",
        reason: "It is no answer to the request (RFC 9110 section 15.2); browsers refuse it with other methods.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["chunks/two-carriage-returns"],
        seen: Seen::Lenient,
        what: "A carriage return more behind the size of a chunk loads",
        reason: "There is only one way to read it.",
        ..ANY
    },
    Known {
        aspects: &["body", "length", "text"],
        kinds: &["name/trailing-dot"],
        what: "The dot at the end of a host's name does not reach the origin",
        reason: "The name is the same host (RFC 3986 section 3.2.2).",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["chain/leaf-ed25519"],
        seen: Seen::Lenient,
        what: "A host with a certificate for Ed25519 loads",
        reason: "The gateway can verify it (RFC 8410), browsers do not offer it.",
        ..ANY
    },
    Known {
        aspects: &["events"],
        kinds: &["interim/"],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A WebSocket over https opens if interim responses precede its handshake",
        reason: "They may precede each response (RFC 9110 section 15.2).",
    },
    Known {
        aspects: &["events"],
        kinds: &["status/100", "status/199"],
        scheme: Some(Scheme::Https),
        seen: Seen::Waits,
        what: "A WebSocket over https that gets an interim response alone waits",
        reason: "Another response may follow (RFC 9110 section 15.2).",
    },
    Known {
        aspects: &["events"],
        kinds: &["handshake/with-lengths"],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A WebSocket over https opens if its handshake has two lengths",
        reason: "It has no body of which they could be the length (RFC 9110 section 8.6).",
    },
    Known {
        aspects: &["events"],
        kinds: &["close/reset"],
        scheme: None,
        seen: Seen::Cleanly,
        what: "A WebSocket that the origin closes and resets at once closes cleanly",
        reason: "The browser's answer is taken before the end of the origin's connection can be known.",
    },
    Known {
        aspects: &["events"],
        kinds: &[
            "end/without-close-reset",
            "page/closes-no-answer-reset",
            "close/reset",
        ],
        seen: Seen::More,
        what: "A WebSocket that the origin resets gets the frames that came before",
        reason: "Without a proxy they may be lost with the connection.",
        ..ANY
    },
];

const CONNECTION: &str = "The field belongs to one connection (RFC 9110 section 7.6.1).";
