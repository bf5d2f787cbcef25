//! Messages between agent and gateway over the transport's streams (docs/protocol/session.md).
//!
//! The crate encodes and decodes messages. It has no sockets, clocks or streams.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bundle;
pub mod class;
mod dictionary;
mod envelope;
mod hash_prefix;
mod headers;
mod id;
mod keys;
mod manifest;
mod message;
mod origin_report;
mod reader;
mod wire;

pub use bundle::{
    AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, Promised, Push, Used,
    Want,
};
pub use envelope::{EnvelopeError, MAX_PAYLOAD, decode, encode};
pub use hash_prefix::{ManifestId, ShortHash};
pub use headers::{
    CodedRequest, HeaderField, HeaderSet, HeaderSetError, HeaderSets, MAX_FIELD_SECTION, decode_header_set,
    decode_url, encode_header_set, encode_request,
};
pub use id::{BoundConnectionId, CacheStateId, EntryId, FetchId, ForgetId, PageId};
pub use keys::window_key;
pub use manifest::{
    Entry, EntryBody, EntryHead, Record, RecordReader, Scope, Withdrawal, encode_record, keepable,
};
pub use message::{
    Body, BodyCoding, BodyPlace, Cancel, Delivery, Failed, FailureReason, Fault, Fetch, FetchKind, Head,
    Hello, ImageLevel, KeyWanted, LinkHint, Message, Method, MirrorState, Mixing, NewKey, Notice,
    Preferences, Resume, SESSION_VERSION, TunnelAccept, TunnelFailed, TunnelOpen, TunnelSecurity, Validator,
    VersionRange, Welcome,
};
pub use origin_report::{Flow, OriginReport, UnchangedEntry};
pub use reader::{MessageReader, ReadEvent};

#[cfg(test)]
mod tests;
