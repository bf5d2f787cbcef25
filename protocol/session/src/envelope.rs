//! Message envelope (docs/protocol/session.md section 1) and the only use of bincode.
//!
//! bincode is no longer maintained (RUSTSEC-2025-0141; decision 0002 describes the replacement), so no other
//! file may use it except for the derives of the messages.
use bincode::{
    Decode, Encode,
    config::{Configuration, Limit, LittleEndian, Varint},
};
use longhaul_types::varint::{self, VarintError};

use super::{
    manifest::Record,
    message::Message,
    wire::{FetchPayload, ForgetPayload, HeadPayload, HelloPayload, WelcomePayload},
};

/// Maximum size of a payload: four times the largest header section of 64 KiB, which is the largest part of a
/// message.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Maximum memory of a decoded payload, which counts against lengths that a payload only claims. An element of a list
/// takes at least a byte of the payload, and less than 32 bytes of memory for each of its bytes.
const MAX_DECODED: usize = 32 * MAX_PAYLOAD;

const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_DECODED>> =
    bincode::config::standard().with_limit::<MAX_DECODED>();

/// Errors of encoding or decoding a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The payload is larger than [`MAX_PAYLOAD`].
    #[error("message of {0} bytes is larger than {MAX_PAYLOAD}")]
    TooLarge(u64),
    /// The kind or length is not a varint.
    #[error("message envelope is malformed")]
    Malformed,
    /// The payload of a manifest's record is malformed.
    #[error("a record of a manifest is malformed")]
    Record,
    /// The payload does not decode to a message of its kind.
    #[error("payload of message kind {kind} is malformed")]
    Payload {
        /// Kind on the wire.
        kind: u64,
    },
}

mod kind {
    pub(super) const HELLO: u64 = 1;
    pub(super) const WELCOME: u64 = 2;
    pub(super) const FETCH: u64 = 3;
    pub(super) const HEAD: u64 = 4;
    pub(super) const BODY: u64 = 5;
    pub(super) const FAILED: u64 = 6;
    pub(super) const CANCEL: u64 = 7;
    pub(super) const TUNNEL_OPEN: u64 = 8;
    pub(super) const TUNNEL_ACCEPT: u64 = 9;
    pub(super) const TUNNEL_FAILED: u64 = 10;
    pub(super) const NOTICE: u64 = 11;
    pub(super) const MANIFEST: u64 = 12;
    pub(super) const PUSH: u64 = 13;
    pub(super) const PROMISED: u64 = 14;
    pub(super) const WANT: u64 = 15;
    pub(super) const ASK: u64 = 16;
    pub(super) const USED: u64 = 17;
    pub(super) const EVICTED: u64 = 18;
    pub(super) const HOLDING: u64 = 19;
    pub(super) const PREFERENCES: u64 = 20;
    pub(super) const DICTIONARIES: u64 = 21;
    pub(super) const ACCELERATED_HOSTS: u64 = 22;
    pub(super) const FORGET: u64 = 23;
    pub(super) const FORGOTTEN: u64 = 24;
    pub(super) const KEY_WANTED: u64 = 25;
    pub(super) const NEW_KEY: u64 = 26;
    pub(super) const ORIGIN_REPORT: u64 = 27;
    pub(super) const ANNOUNCEMENT: u64 = 28;
    pub(super) const ASSOCIATION_OPEN: u64 = 29;
    pub(super) const ASSOCIATION_ACCEPT: u64 = 30;
    pub(super) const SITE_IMAGES: u64 = 31;
    pub(super) const CONTINUE: u64 = 32;
}

/// Appends a message in its envelope.
///
/// # Errors
/// The payload is too large.
pub fn encode(message: &Message, out: &mut Vec<u8>) -> Result<(), EnvelopeError> {
    let (kind, payload) = match message {
        Message::Hello(payload) => (kind::HELLO, to_bytes(&HelloPayload::from(payload))),
        Message::Welcome(payload) => (kind::WELCOME, to_bytes(&WelcomePayload::from(payload))),
        Message::Fetch(payload) => (kind::FETCH, to_bytes(&FetchPayload::from(payload))),
        Message::Head(payload) => (kind::HEAD, to_bytes(&HeadPayload::from(payload))),
        Message::Body(payload) => (kind::BODY, to_bytes(payload)),
        Message::Failed(payload) => (kind::FAILED, to_bytes(payload)),
        Message::Cancel(payload) => (kind::CANCEL, to_bytes(payload)),
        Message::TunnelOpen(payload) => (kind::TUNNEL_OPEN, to_bytes(payload)),
        Message::TunnelAccept(payload) => (kind::TUNNEL_ACCEPT, to_bytes(payload)),
        Message::TunnelFailed(payload) => (kind::TUNNEL_FAILED, to_bytes(payload)),
        Message::Notice(payload) => (kind::NOTICE, to_bytes(payload)),
        Message::Manifest(payload) => (kind::MANIFEST, to_bytes(payload)),
        Message::Push(payload) => (kind::PUSH, to_bytes(payload)),
        Message::Promised(payload) => (kind::PROMISED, to_bytes(payload)),
        Message::Want(payload) => (kind::WANT, to_bytes(payload)),
        Message::Ask(payload) => (kind::ASK, to_bytes(payload)),
        Message::Used(payload) => (kind::USED, to_bytes(payload)),
        Message::Evicted(payload) => (kind::EVICTED, to_bytes(payload)),
        Message::Holding(payload) => (kind::HOLDING, to_bytes(payload)),
        Message::Preferences(payload) => (kind::PREFERENCES, to_bytes(payload)),
        Message::Dictionaries(payload) => (kind::DICTIONARIES, to_bytes(payload)),
        Message::AcceleratedHosts(payload) => (kind::ACCELERATED_HOSTS, to_bytes(payload)),
        Message::Forget(payload) => (kind::FORGET, to_bytes(&ForgetPayload::from(payload))),
        Message::Forgotten(payload) => (kind::FORGOTTEN, to_bytes(payload)),
        Message::KeyWanted(payload) => (kind::KEY_WANTED, to_bytes(payload)),
        Message::NewKey(payload) => (kind::NEW_KEY, to_bytes(payload)),
        Message::OriginReport(payload) => (kind::ORIGIN_REPORT, to_bytes(payload)),
        Message::Announcement(payload) => (kind::ANNOUNCEMENT, to_bytes(payload)),
        Message::AssociationOpen(payload) => (kind::ASSOCIATION_OPEN, to_bytes(payload)),
        Message::AssociationAccept(payload) => (kind::ASSOCIATION_ACCEPT, to_bytes(payload)),
        Message::SiteImages(payload) => (kind::SITE_IMAGES, to_bytes(payload)),
        Message::Continue(payload) => (kind::CONTINUE, to_bytes(payload)),
    };
    let payload = payload.ok_or(EnvelopeError::Payload { kind })?;
    if payload.len() > MAX_PAYLOAD {
        return Err(EnvelopeError::TooLarge(payload.len() as u64));
    }
    varint::encode(kind, out);
    varint::encode(payload.len() as u64, out);
    out.extend_from_slice(&payload);
    Ok(())
}

/// Decodes the first message of `input`. Returns the message (`None` for an unknown kind) and its length in
/// bytes, or `None` if the message is incomplete.
///
/// # Errors
/// The envelope or the payload is malformed, or larger than [`MAX_PAYLOAD`].
pub fn decode(input: &[u8]) -> Result<Option<(Option<Message>, usize)>, EnvelopeError> {
    let mut rest = input;
    let (kind, length) =
        match varint::decode(&mut rest).and_then(|kind| Ok((kind, varint::decode(&mut rest)?))) {
            Ok(envelope) => envelope,
            Err(VarintError::Truncated) => return Ok(None),
            Err(VarintError::NotShortest) => return Err(EnvelopeError::Malformed),
        };
    let Some(payload) = complete_payload(rest, length)? else {
        return Ok(None);
    };
    let taken = input.len() - rest.len() + payload.len();
    Ok(Some((decode_payload(kind, payload)?, taken)))
}

/// Returns the payload of `length` bytes at the start of `rest`; `None` if it is incomplete.
fn complete_payload(rest: &[u8], length: u64) -> Result<Option<&[u8]>, EnvelopeError> {
    if length > MAX_PAYLOAD as u64 {
        return Err(EnvelopeError::TooLarge(length));
    }
    let length = usize::try_from(length).map_err(|_| EnvelopeError::TooLarge(length))?;
    Ok(rest.get(..length))
}

fn decode_payload(kind: u64, payload: &[u8]) -> Result<Option<Message>, EnvelopeError> {
    let message = match kind {
        kind::HELLO => from_bytes(payload).map(|payload: HelloPayload| Message::Hello(payload.into())),
        kind::WELCOME => from_bytes(payload).map(|payload: WelcomePayload| Message::Welcome(payload.into())),
        kind::FETCH => from_bytes(payload).map(|payload: FetchPayload| Message::Fetch(payload.into())),
        kind::HEAD => from_bytes(payload).map(|payload: HeadPayload| Message::Head(payload.into())),
        kind::BODY => from_bytes(payload).map(Message::Body),
        kind::FAILED => from_bytes(payload).map(Message::Failed),
        kind::CANCEL => from_bytes(payload).map(Message::Cancel),
        kind::TUNNEL_OPEN => from_bytes(payload).map(Message::TunnelOpen),
        kind::TUNNEL_ACCEPT => from_bytes(payload).map(Message::TunnelAccept),
        kind::TUNNEL_FAILED => from_bytes(payload).map(Message::TunnelFailed),
        kind::NOTICE => from_bytes(payload).map(Message::Notice),
        kind::MANIFEST => from_bytes(payload).map(Message::Manifest),
        kind::PUSH => from_bytes(payload).map(Message::Push),
        kind::PROMISED => from_bytes(payload).map(Message::Promised),
        kind::WANT => from_bytes(payload).map(Message::Want),
        kind::ASK => from_bytes(payload).map(Message::Ask),
        kind::USED => from_bytes(payload).map(Message::Used),
        kind::EVICTED => from_bytes(payload).map(Message::Evicted),
        kind::HOLDING => from_bytes(payload).map(Message::Holding),
        kind::PREFERENCES => from_bytes(payload).map(Message::Preferences),
        kind::DICTIONARIES => from_bytes(payload).map(Message::Dictionaries),
        kind::ACCELERATED_HOSTS => from_bytes(payload).map(Message::AcceleratedHosts),
        kind::FORGET => from_bytes(payload).map(|payload: ForgetPayload| Message::Forget(payload.into())),
        kind::FORGOTTEN => from_bytes(payload).map(Message::Forgotten),
        kind::KEY_WANTED => from_bytes(payload).map(Message::KeyWanted),
        kind::NEW_KEY => from_bytes(payload).map(Message::NewKey),
        kind::ORIGIN_REPORT => from_bytes(payload).map(Message::OriginReport),
        kind::ANNOUNCEMENT => from_bytes(payload).map(Message::Announcement),
        kind::ASSOCIATION_OPEN => from_bytes(payload).map(Message::AssociationOpen),
        kind::ASSOCIATION_ACCEPT => from_bytes(payload).map(Message::AssociationAccept),
        kind::SITE_IMAGES => from_bytes(payload).map(Message::SiteImages),
        kind::CONTINUE => from_bytes(payload).map(Message::Continue),
        _ => return Ok(None),
    };
    message.map(Some).ok_or(EnvelopeError::Payload { kind })
}

/// Appends a record of a manifest, with its length.
pub(super) fn encode_record(record: &Record, out: &mut Vec<u8>) -> Result<(), EnvelopeError> {
    let payload = to_bytes(record).ok_or(EnvelopeError::Record)?;
    if payload.len() > MAX_PAYLOAD {
        return Err(EnvelopeError::TooLarge(payload.len() as u64));
    }
    varint::encode(payload.len() as u64, out);
    out.extend_from_slice(&payload);
    Ok(())
}

/// Decodes the first record of `input` and returns its length in bytes; `None` if the record is incomplete.
pub(super) fn decode_record(input: &[u8]) -> Result<Option<(Record, usize)>, EnvelopeError> {
    let mut rest = input;
    let length = match varint::decode(&mut rest) {
        Ok(length) => length,
        Err(VarintError::Truncated) => return Ok(None),
        Err(VarintError::NotShortest) => return Err(EnvelopeError::Malformed),
    };
    let Some(payload) = complete_payload(rest, length)? else {
        return Ok(None);
    };
    let record = from_bytes(payload).ok_or(EnvelopeError::Record)?;
    Ok(Some((record, input.len() - rest.len() + payload.len())))
}

fn to_bytes<M: Encode>(message: &M) -> Option<Vec<u8>> {
    bincode::encode_to_vec(message, CONFIG).ok()
}

fn from_bytes<M: Decode<()>>(payload: &[u8]) -> Option<M> {
    match bincode::decode_from_slice(payload, CONFIG) {
        Ok((message, taken)) if taken == payload.len() => Some(message),
        Ok(_) | Err(_) => None,
    }
}
