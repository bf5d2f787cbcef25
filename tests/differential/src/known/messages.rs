//! Responses that differ, and their content.
use super::{ANY, Known, Seen};
use crate::{Mode, Scheme};

pub(super) const MESSAGES: &[Known] = &[
    Known {
        aspects: &["outcome"],
        kinds: &["status/407-of-origin"],
        scheme: Some(Scheme::Http),
        seen: Seen::Lenient,
        what: "Status 407 of an origin over http is shown",
        reason: "A browser rejects it if it knows of no proxy, and cannot tell whose it is behind one.",
        ..ANY
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
        kinds: &["length/list-different", "length/list-open"],
        modes: &[Mode::Head],
        seen: Seen::Lenient,
        what: "A response to HEAD with several lengths, or an open list of them, loads",
        reason: "It has no body of which they could be the length (RFC 9110 section 9.3.2).",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "length/list-different+status/205-with-body",
            "length/list-open+status/205-with-body",
        ],
        seen: Seen::Lenient,
        what: "A response with status 205 and several lengths, or an open list of them, loads",
        reason: "It has no body (RFC 9110 section 15.3.6).",
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
        aspects: &["outcome"],
        kinds: &["chunks/two-carriage-returns"],
        seen: Seen::Lenient,
        what: "A carriage return more behind the size of a chunk loads",
        reason: "There is only one way to read it.",
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
            // The line continues that of the coding.
            "field/space-before-name+transfer/",
            "field/space-before-name+chunks/",
            "field/tab-before-name+transfer/",
            "field/tab-before-name+chunks/",
            "field/random-name+transfer/",
            "field/random-name+chunks/",
        ],
        seen: Seen::Refused,
        what: "A length beside chunks, and a transfer coding that is not `chunked` or `identity`, is an error page",
        reason: "Two readers could read different bodies (RFC 9112 section 6.3), and no coding was asked for.",
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
            "http2/cookies+http2/long",
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
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &[
            "transfer/+end/reset",
            "field/long+end/reset",
            "field/many+end/reset",
        ],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A body without an end loads from a host that was not accelerated and resets the connection",
        reason: "The agent closes the tunnel after its last byte. A reset would discard bytes that the browser has not read yet.",
        ..ANY
    },
    Known {
        // A later member may declare the charset.
        aspects: &[
            "body", "charset", "length", "outcome", "text", "markup", "title", "mode", "ran", "rules", "size",
        ],
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
        aspects: &["body", "length"],
        kinds: &["whole/http-0.9", "whole/tls-alert"],
        modes: &[Mode::Head],
        what: "What answers HEAD without a status line (HTTP/0.9) is missing",
        reason: "A response to HEAD has no body (RFC 9110 section 9.3.2).",
        ..ANY
    },
    Known {
        aspects: &["markup", "text"],
        kinds: &["type/svg", "type/xhtml"],
        what: "The document that the browser makes of invalid XML may be another one",
        reason: "It depends on how much had arrived when the browser found the error.",
        ..ANY
    },
];
