//! Results of a page load, common to all browsers.
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

/// A finished page load. Times are relative to the start of the navigation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// The page.
    pub url: Url,
    /// Time until the last byte of the last object (scripted browser) or the load event (Chromium).
    pub time: Duration,
    /// First contentful paint, if the browser paints.
    pub first_paint: Option<Duration>,
    /// Largest contentful paint, if the browser paints.
    pub largest_paint: Option<Duration>,
    /// Every object that the page requested before it was loaded, in the order of the requests.
    pub objects: Vec<ObjectLoad>,
    /// Number of TCP connections opened to origins or to the proxy.
    pub connections: u64,
    /// Number of DNS queries, if known.
    pub dns_lookups: Option<u64>,
    /// Mean over requests of (requests sent including this one, minus responses received before it), per
    /// connection: Chakravorty and Pratt, WWW performance over GPRS. Known only for the scripted browser.
    pub pipelining_factor: Option<f64>,
}

/// One object of a page load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectLoad {
    /// URL. A URL that was requested twice has two objects.
    pub url: Url,
    /// Kind of the object.
    pub class: ObjectClass,
    /// Outcome of its load.
    pub outcome: Outcome,
    /// Status of the response, if there was one.
    pub status: Option<u16>,
    /// Length of the body without content codings.
    pub body_bytes: u64,
    /// Length of the body as transferred to the browser, if known.
    pub coded_bytes: Option<u64>,
    /// BLAKE3 of the body without content codings, if the loader can read the body.
    pub body_hash: Option<[u8; 32]>,
    /// Time at which the page discovered it.
    pub discovered: Duration,
    /// Time at which its request was passed to the kernel.
    pub sent: Option<Duration>,
    /// Time of the first byte of its response.
    pub first_byte: Option<Duration>,
    /// Time of its last byte, or of its failure.
    pub ended: Option<Duration>,
    /// Number of its connection, from 0, if known.
    pub connection: Option<u64>,
}

/// Outcome of an object's load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It arrived completely, with a status that is not an error (2xx and 3xx, including 304 for the
    /// browser's own cache).
    Delivered,
    /// The origin responded with 4xx or 5xx, or its name does not exist.
    Missing,
    /// It did not arrive completely, for this reason.
    Failed(String),
    /// It was incomplete when the page was loaded (scripts may request objects for which the load event does
    /// not wait).
    Unfinished,
}

/// Kinds of objects, with separate colours in the waterfall.
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
    /// Other objects.
    Other,
}
