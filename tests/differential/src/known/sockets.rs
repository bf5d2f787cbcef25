//! WebSockets that differ.
use super::{ANY, Known, Seen};
use crate::Scheme;

pub(super) const SOCKETS: &[Known] = &[
    Known {
        aspects: &["events"],
        kinds: &["interim/"],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A WebSocket over https opens if interim responses precede its handshake",
        reason: "They may precede each response (RFC 9110 section 15.2).",
        ..ANY
    },
    Known {
        aspects: &["events"],
        kinds: &["status/100", "status/199"],
        scheme: Some(Scheme::Https),
        seen: Seen::Waits,
        what: "A WebSocket over https that gets an interim response alone waits",
        reason: "Another response may follow (RFC 9110 section 15.2).",
        ..ANY
    },
    Known {
        aspects: &["events"],
        kinds: &["handshake/with-lengths"],
        scheme: Some(Scheme::Https),
        seen: Seen::Lenient,
        what: "A WebSocket over https opens if its handshake has two lengths",
        reason: "It has no body of which they could be the length (RFC 9110 section 8.6).",
        ..ANY
    },
    Known {
        aspects: &["events"],
        kinds: &[
            "close/reset",
            "page/closes-no-answer-reset",
            "late/text-and-close+end/without-close-reset",
        ],
        seen: Seen::Cleanly,
        what: "A WebSocket that the origin closes and resets at once closes cleanly",
        reason: "The browser's answer is taken before the end of the origin's connection can be known.",
        ..ANY
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
    Known {
        aspects: &["events"],
        kinds: &["late/"],
        seen: Seen::Fewer,
        what: "A WebSocket whose frames precede an invalid one may get fewer of them, or more",
        reason: "Frames that arrive together with an invalid one are lost in the browser; when they arrive is up to the network.",
        ..ANY
    },
    Known {
        aspects: &["events"],
        kinds: &["early/+close/then-text", "late/+close/then-text"],
        seen: Seen::OtherEnd,
        what: "A WebSocket on which frames follow the close frame closes cleanly or fails",
        reason: "The browser takes them for an error, or not, by whether it has passed on the earlier frames, and this is up to the network.",
        ..ANY
    },
];
