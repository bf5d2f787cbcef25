//! Messages between agent and gateway over the transport's streams (docs/protocol/session.md).
//!
//! The crate encodes and decodes messages. It has no sockets, clocks or streams.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod announcement;
mod association;
mod bundle;
pub mod class;
pub mod datagram;
mod dictionary;
mod envelope;
mod failure;
mod fetch;
mod hash_prefix;
mod headers;
mod hello;
mod id;
mod key_replacement;
mod keys;
mod manifest;
mod message;
mod origin_report;
mod preferences;
mod reader;
mod response;
mod stream_messages;
mod tunnel;
mod wire;

pub use announcement::{Announcement, MAX_UDP_PORTS};
pub use association::{AssociationAccept, AssociationOpen};
pub use bundle::{
    AcceleratedHosts, Ask, Dictionaries, Evicted, Forget, Forgotten, Holding, Manifest, Promised, Push, Used,
    Want,
};
pub use envelope::{EnvelopeError, MAX_PAYLOAD, decode, encode};
pub use failure::{ERROR_QUOTA, Failed, FailureReason, Fault};
pub use fetch::{Cancel, Continue, Delivery, Fetch, FetchKind, Method, Resume, Validator};
pub use hash_prefix::{ManifestId, ShortHash};
pub use headers::{
    CodedRequest, FieldCoding, HeaderField, HeaderSet, HeaderSetError, HeaderSets, MAX_FIELD_SECTION,
    decode_header_set, decode_url, encode_header_set, encode_request,
};
pub use hello::{FAILURE_RECORDS, Hello, LinkHint, MirrorState, SESSION_VERSION, VersionRange, Welcome};
pub use id::{BoundConnectionId, CacheStateId, EntryId, FetchId, ForgetId, PageId};
pub use key_replacement::{KeyWanted, NewKey};
pub use keys::window_key;
pub use manifest::{
    AbsentHost, Entry, EntryBody, EntryFailure, EntryHead, Record, RecordReader, Scope, Withdrawal,
    encode_record, keepable,
};
pub use message::{Message, Notice};
pub use origin_report::{Flow, OriginReport, UnchangedEntry};
pub use preferences::{ImageLevel, Mixing, Preferences, SiteImages};
pub use reader::{MessageReader, ReadEvent};
pub use response::{Body, BodyCoding, BodyPlace, Head};
pub use stream_messages::{AgentControl, GatewayControl, GatewayStream, RequestMessage};
pub use tunnel::{TunnelAccept, TunnelFailed, TunnelOpen, TunnelSecurity};

#[cfg(test)]
mod tests;
