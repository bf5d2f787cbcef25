//! What a page load is, whichever browser did it.
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

/// A finished page load. Times are since the navigation began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// The page.
    pub url: Url,
    /// Until the last byte of the last object (scripted browser) or the load event (Chromium).
    pub time: Duration,
    /// First contentful paint, where the browser paints.
    pub first_paint: Option<Duration>,
    /// Largest contentful paint, where the browser paints.
    pub largest_paint: Option<Duration>,
    /// Every object that the page asked for before it was loaded, in the order of asking.
    pub objects: Vec<ObjectLoad>,
    /// TCP connections that were opened, to origins or to the proxy.
    pub connections: u64,
    /// DNS questions that were asked, where the loader can tell.
    pub dns_lookups: Option<u64>,
    /// Mean over requests of (requests sent, this one included, minus responses received before it), per connection:
    /// Chakravorty and Pratt, WWW performance over GPRS. Only the scripted browser knows it.
    pub pipelining_factor: Option<f64>,
}

/// One object of a page load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectLoad {
    /// Its address. The same URL may stand twice if it was asked for twice.
    pub url: Url,
    /// What kind of object it is.
    pub class: ObjectClass,
    /// What became of it.
    pub outcome: Outcome,
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Length of the body with content codings undone.
    pub body_bytes: u64,
    /// Length of the body as it was transferred to the browser, where the loader can tell.
    pub coded_bytes: Option<u64>,
    /// BLAKE3 of the body with content codings undone, where the loader sees the body.
    pub body_hash: Option<[u8; 32]>,
    /// When the page's need for it was known.
    pub discovered: Duration,
    /// When its request was handed to the kernel.
    pub sent: Option<Duration>,
    /// When the first byte of its response arrived.
    pub first_byte: Option<Duration>,
    /// When its last byte arrived, or its failure was known.
    pub ended: Option<Duration>,
    /// Number of the connection that carried it, from 0, where the loader can tell.
    pub connection: Option<u64>,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It arrived whole, with a status that is no error (2xx, 3xx, 304 from the browser's own cache included).
    Delivered,
    /// The answer was 4xx or 5xx from the origin, or its name does not exist.
    Missing,
    /// It did not arrive whole, for this reason.
    Failed(String),
    /// It was still on its way when the page was loaded (scripts may ask for objects that the load event does not
    /// wait for).
    Unfinished,
}

/// Kinds of objects, as the waterfall colours them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectClass {
    /// HTML: the page and its frames.
    Document,
    /// Style sheets.
    Style,
    /// Scripts.
    Script,
    /// Pictures.
    Image,
    /// Fonts.
    Font,
    /// Anything else.
    Other,
}
