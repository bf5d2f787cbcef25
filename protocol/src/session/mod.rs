//! What agent and gateway say to each other over the transport's streams (docs/protocol/session.md).

mod dictionary;
mod envelope;
mod headers;
mod message;
mod reader;

pub use envelope::{EnvelopeError, MAX_PAYLOAD, decode, encode};
pub use headers::{
    HeaderField, HeaderSet, HeaderSetError, HeaderSets, MAX_FIELD_SECTION, decode_header_set,
    encode_header_set,
};
pub use message::{
    Body, BodyCoding, Cancel, Failed, FailureReason, Fault, Fetch, FetchKind, Head, Hello, LinkHint, Message,
    Method, Notice, Preferences, Resume, SESSION_VERSION, TunnelAccept, TunnelFailed, TunnelOpen, Validator,
    VersionRange, Welcome,
};
pub use reader::{MessageReader, ReadEvent};

#[cfg(test)]
mod tests;
