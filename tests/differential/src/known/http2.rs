//! Responses over HTTP/2 that differ.
use super::{ANY, Known, Seen};
use crate::{Mode, Scheme};

pub(super) const HTTP2: &[Known] = &[
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
        kinds: &["http2/interim-101"],
        seen: Seen::Added,
        what: "A response over HTTP/2 that status 101 precedes has its fields",
        reason: "The status has no meaning there (RFC 9113 section 8.6), and nothing else could be meant.",
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
        ..ANY
    },
    Known {
        aspects: &["fields.*", "outcome"],
        kinds: &["http2/status-101"],
        what: "A response over HTTP/2 with status 101 is that of its HTTP/1.1",
        reason: "The gateway asks such a host over HTTP/1.1.",
        ..ANY
    },
    Known {
        // An image without a body fails.
        aspects: &[
            "body", "length", "text", "markup", "title", "mode", "ran", "rules", "size", "outcome",
        ],
        kinds: &[
            "http2/status-204-with-body",
            "http2/status-205-with-body",
            "http2/status-304-with-body",
        ],
        what: "The body of a response over HTTP/2 with status 204 or 304, and in some cases 205, is missing",
        reason: "Such responses have none (RFC 9110 sections 6.4.1 and 15.3.6), and HTTP/1.1 cannot carry one.",
        ..ANY
    },
    Known {
        // Without a type, the content decides about it.
        aspects: &[
            "body", "charset", "length", "text", "markup", "title", "mode", "ran", "rules", "size", "type",
        ],
        kinds: &["http2/head-only"],
        what: "A response over HTTP/2 that ends with its head although it has a length has the body of its HTTP/1.1",
        reason: "The gateway asks such a host over HTTP/1.1.",
        ..ANY
    },
    Known {
        aspects: &["outcome"],
        kinds: &["http2/interim-101+http2/reset-no-error"],
        seen: Seen::Refused,
        what: "A response over HTTP/2 of which only status 101 arrives is an error page",
        reason: "The status is not the final one (RFC 9110 section 15.2).",
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
        aspects: &["body", "length", "text", "markup", "title", "mode"],
        kinds: &["http2/reset-half-no-error", "http2/length-"],
        what: "Frames and scripts see a body over HTTP/2 of another length than announced as far as it came",
        reason: "How much of it came before the end depends on time.",
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
            "http2/head-only",
            "http2/pseudo-of-requests",
            "http2/pseudo-unknown",
            "http2/status-101",
            "http2/status-empty",
            "http2/status-letters",
            "http2/status-plus",
            "http2/status-with-reason",
        ],
        modes: &[Mode::Post],
        seen: Seen::Refused,
        what: "A POST that is answered over HTTP/2 with a field of connections, an unknown pseudo-field, status 101, a status that is no number, or a length and no body, is an error page, the first time",
        reason: "The response is malformed (RFC 9113 sections 8.1.1, 8.2.2, 8.3 and 8.6), and the origin may have processed the request.",
        ..ANY
    },
    Known {
        aspects: &["outcome", "events"],
        kinds: &[
            "http2/connection+http2/reset-after-end",
            "http2/keep-alive+http2/reset-after-end",
            "http2/proxy-connection+http2/reset-after-end",
            "http2/te+http2/reset-after-end",
            "http2/transfer-encoding+http2/reset-after-end",
            "http2/upgrade+http2/reset-after-end",
        ],
        seen: Seen::Refused,
        what: "A response over HTTP/2 with a field of connections, whose stream is reset behind its end, is an error page",
        reason: "The response is malformed (RFC 9113 section 8.2.2), and the reset hides that its HTTP/1.1 may be sound.",
        ..ANY
    },
    Known {
        aspects: &["event"],
        kinds: &["http2/settings-no-streams"],
        what: "A frame of a host that permits no further request over HTTP/2 loads with its own frames",
        reason: "The gateway opens another connection.",
        ..ANY
    },
];
