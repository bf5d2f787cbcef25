//! One harness for each decoder of what comes from the network, from a file or from a user.
//!
//! A harness takes any bytes and must not panic; where a value decodes, encoding and decoding it again must give it back.
//! `tests/corpora.rs` runs them over the committed corpora and over mutations; `targets/` is their cargo-fuzz face.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a harness reports a defect by panicking")]

mod content;
mod input;
mod messages;
mod packets;

/// A harness and valid inputs to start from.
#[derive(Debug, Clone, Copy)]
pub struct Harness {
    /// Also the name of its corpus folder and of its fuzz target.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Inputs that decode, so that mutations reach deep.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const HARNESSES: &[Harness] = &[
    Harness {
        name: "body_windows",
        run: content::body_windows,
        seeds: content::body_seeds,
    },
    Harness {
        name: "content_codings",
        run: content::content_codings,
        seeds: content::coding_seeds,
    },
    Harness {
        name: "frames",
        run: packets::frames,
        seeds: packets::frame_seeds,
    },
    Harness {
        name: "header_set",
        run: messages::header_set,
        seeds: messages::header_seeds,
    },
    Harness {
        name: "invite",
        run: input::invite,
        seeds: input::invite_seeds,
    },
    Harness {
        name: "link_trace",
        run: input::link_trace,
        seeds: input::trace_seeds,
    },
    Harness {
        name: "packets",
        run: packets::packets,
        seeds: packets::packet_seeds,
    },
    Harness {
        name: "proxy_target",
        run: input::proxy_target,
        seeds: input::target_seeds,
    },
    Harness {
        name: "session_messages",
        run: messages::session_messages,
        seeds: messages::message_seeds,
    },
];

/// Runs the harness of this name.
///
/// # Panics
/// There is none, or the harness found a defect.
pub fn run(name: &str, bytes: &[u8]) {
    let harness = HARNESSES.iter().find(|harness| harness.name == name);
    let Some(harness) = harness else {
        panic!("no harness `{name}`")
    };
    (harness.run)(bytes);
}
