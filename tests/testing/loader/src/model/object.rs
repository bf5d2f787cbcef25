//! An object of a page, and the data in its response's head.
use std::time::Duration;

use http::{HeaderMap, HeaderName, header};
use longhaul_replay::page::{Destination, MediaType};
use url::Url;

use super::{document::DocumentReader, framing::Head};
use crate::{ObjectClass, ObjectLoad, Outcome};

/// An object of a page, complete or incomplete.
pub(super) struct Object {
    pub(super) load: ObjectLoad,
    /// `Document` is the page's own document; those in frames are `Frame`.
    pub(super) destination: Destination,
    pub(super) referrer: Option<Url>,
    /// Number of frames around it.
    pub(super) depth: usize,
    /// The URLs that redirected to it.
    pub(super) chain: Vec<Url>,
    /// True if a response has begun.
    pub(super) answered: bool,
    /// True if the request was sent since it was last queued.
    pub(super) on_the_way: bool,
    /// Number of connections that were closed before any byte of the response.
    pub(super) unanswered: u32,
    /// Number of incomplete responses.
    pub(super) broken_off: u32,
    pub(super) receiving: Option<Receiving>,
}

/// A response that is being received.
pub(super) struct Receiving {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
    pub(super) document: Option<DocumentReader>,
}

impl Object {
    /// Creates an object of which only the URL is known.
    pub(super) fn new(url: Url, destination: Destination, discovered: Duration) -> Self {
        Self {
            load: ObjectLoad {
                url,
                class: class_of(destination),
                outcome: Outcome::Unfinished,
                status: None,
                body_bytes: 0,
                coded_bytes: None,
                body_hash: None,
                discovered,
                sent: None,
                first_byte: None,
                ended: None,
                connection: None,
            },
            destination,
            referrer: None,
            depth: 0,
            chain: Vec::new(),
            answered: false,
            on_the_way: false,
            unanswered: 0,
            broken_off: 0,
            receiving: None,
        }
    }
}

/// Converts a length into a count.
pub(super) fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn class_of(destination: Destination) -> ObjectClass {
    match destination {
        Destination::Document | Destination::Frame => ObjectClass::Document,
        Destination::Style | Destination::InactiveStyle => ObjectClass::Style,
        Destination::Script => ObjectClass::Script,
        Destination::Image | Destination::Icon => ObjectClass::Image,
        Destination::Font => ObjectClass::Font,
        Destination::Manifest | Destination::Other => ObjectClass::Other,
    }
}

/// Returns the target of a redirect, as written.
pub(super) fn location(head: &Head) -> Option<String> {
    let location = head.headers.get(header::LOCATION)?;
    matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308)
        .then(|| String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Returns true if the body is parsed for references.
pub(super) fn is_html(headers: &HeaderMap) -> bool {
    let media_type = MediaType::of_response(headers);
    media_type.is_html() || media_type.essence.is_empty()
}

/// Returns the charset in `Content-Type`.
pub(super) fn charset(headers: &HeaderMap) -> Option<String> {
    MediaType::of_response(headers).charset
}

/// Returns the values of a list field.
pub(super) fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).iter();
    let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.collect::<Vec<_>>().join(", ")
}
