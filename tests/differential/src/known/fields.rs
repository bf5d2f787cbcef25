//! Fields that differ.
use super::{ANY, Known, Seen};
use crate::Scheme;

const CONNECTION: &str = "The field belongs to one connection (RFC 9110 section 7.6.1).";

pub(super) const FIELDS: &[Known] = &[
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
        aspects: &["fields.alt-svc"],
        seen: Seen::Gone,
        what: "`Alt-Svc` is missing",
        reason: "`Alt-Svc` would lead the browser past the agent.",
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
        aspects: &[
            "fields.accept-ranges",
            "fields.content-md5",
            "fields.content-digest",
            "fields.digest",
            "fields.repr-digest",
        ],
        kinds: &["coding/"],
        seen: Seen::Gone,
        what: "`Accept-Ranges` and the digests of a coded body are missing",
        reason: "They describe the coded bytes, and the browser gets them decoded.",
        ..ANY
    },
    Known {
        aspects: &["fields.transfer-encoding"],
        what: "`Transfer-Encoding` is missing or there",
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
        aspects: &["fields.proxy-authenticate"],
        seen: Seen::Gone,
        what: "`Proxy-Authenticate` of an origin is missing",
        reason: CONNECTION,
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
        aspects: &["fields.*"],
        // The second one is repeated over HTTP/1.1.
        kinds: &["field/", "http2/delete-in-value+http2/http-1.1-required"],
        seen: Seen::Spaces,
        what: "A control character in a field is a space",
        reason: "No valid field contains it (RFC 9110 section 5.5).",
        ..ANY
    },
    Known {
        aspects: &["fields.content-type", "fields.location", "type"],
        kinds: &["type/control", "redirect/control", "redirect/delete"],
        seen: Seen::Encoded,
        what: "A control character in `Content-Type` or `Location` is percent-encoded",
        reason: "No valid field contains it (RFC 9110 section 5.5), and with a space in its place the type or the URL would be another one.",
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
        aspects: &["reason"],
        scheme: Some(Scheme::Http),
        seen: Seen::Phrase,
        what: "`statusText` over http is that of the standard, or empty",
        reason: "Reason phrases have no meaning (RFC 9110 section 15.1), and not all their bytes may be sent on.",
        ..ANY
    },
];
