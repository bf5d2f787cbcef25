//! The results file: what `longhaul-bench` writes and the report reads (docs/BENCHMARKING.md).
use serde::{Deserialize, Serialize};

/// A results file. Unknown fields are ignored, so that an older command can read a newer file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Where and how the figures were measured.
    pub environment: Environment,
    /// One row a page load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The transport's bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// The transport's curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
}

/// Where and how the figures were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Model of the processor and the number of cores.
    pub cpu: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Versions of the programs that took part, and the kernel's congestion control, by name.
    pub versions: std::collections::BTreeMap<String, String>,
    /// Commit of Longhaul, empty if unknown.
    pub commit: String,
    /// Seed of the links and of the order of loads.
    pub seed: u64,
    /// UTC date and time at which the run began, RFC 3339.
    pub date: String,
}

/// What [`Row::conditions`] says of a load beside which a bulk download ran through the same system.
pub const BESIDE_BULK: &str = "beside a bulk download";
/// What it says of a load beside which another device asked the page's host without end.
pub const BESIDE_REQUESTS: &str = "beside another device's requests";

/// What [`Row::conditions`] says of a load whose page was held still for a picture.
pub const HELD_STILL: &str = "held still for pictures";
/// What [`Row::scheme`] says where a page was loaded under the scheme of its recording, or has one of its own.
pub const AS_RECORDED: &str = "recorded";

fn as_recorded() -> String {
    AS_RECORDED.to_owned()
}

/// One page load. Sizes in bytes, times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the page.
    pub page: String,
    /// Name of the link.
    pub link: String,
    /// Name of the system.
    pub system: String,
    /// State of the caches: `first`, `cold`, `second-device`, `revisit`, `next-edition`, `sibling`, `warm`.
    pub state: String,
    /// `model` or `chromium`.
    pub loader: String,
    /// `recorded`, or `http` if the load of a recorded page began under http whatever it was recorded under.
    #[serde(default = "as_recorded")]
    pub scheme: String,
    /// Domains that had another name in a load over http, since the browser insists on https for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<String>,
    /// Level of image quality: `original`, `high`, `medium`, `low`, `text`.
    pub image_level: String,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// Share of packets that the Internet loses each way, 0 to 1.
    #[serde(default)]
    pub internet_loss: f64,
    /// What else was unusual: origins that think or close, a congestion control by name; empty if nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conditions: String,
    /// Time to load.
    pub time_s: f64,
    /// First contentful paint (Chromium).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_paint_s: Option<f64>,
    /// Largest contentful paint (Chromium).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_paint_s: Option<f64>,
    /// Time of the ideal protocol for bodies as stored, identity coding.
    pub ideal_raw_s: f64,
    /// Time of the ideal protocol with text gzip -9.
    pub ideal_gzip_s: f64,
    /// Time of the ideal protocol with text gzip -9 and images as this load delivered them.
    pub ideal_lossy_s: f64,
    /// Bytes of IP packets that the hop carried towards the client.
    pub bytes_down: u64,
    /// Bytes of IP packets that the hop carried from the client.
    pub bytes_up: u64,
    /// Bytes of IP packets that the Internet carried towards the gateway (or the client, without one).
    pub origin_bytes: u64,
    /// Size of the page's text, each object gzip -9.
    pub bytes_gzip_text: u64,
    /// Size of the page's images as this load delivered them.
    pub bytes_image_delivered: u64,
    /// The hop's raw rate towards the client, bit/s.
    pub link_down_bps: u64,
    /// The hop's idle round-trip time.
    pub link_rtt_s: f64,
    /// Objects that arrived.
    pub objects: u64,
    /// Objects that a direct load of this page got and this one did not, or errors that the system made.
    pub failed: u64,
    /// Objects that do not exist: 404, no such name.
    pub missing: u64,
    /// Bytes of all bodies that arrived, content codings undone.
    #[serde(default)]
    pub body_bytes: u64,
    /// Of the objects that arrived, those over plain http: what a proxy sees. The others were tunnelled.
    #[serde(default)]
    pub http_objects: u64,
    /// Of [`Self::body_bytes`], those over plain http.
    #[serde(default)]
    pub http_bytes: u64,
    /// TCP connections that the browser opened.
    pub connections: u64,
    /// DNS questions that crossed the hop.
    pub dns_lookups: u64,
    /// Pipelining factor (scripted browser).
    pub pipelining_factor: Option<f64>,
    /// Share of the time in which an ideal sender would have kept the hop busy and it was idle.
    pub hop_idle_while_missing: f64,
    /// Share of the time from the navigation to the last byte in which the hop towards the client was idle. Something was
    /// missing all that time: the request's own way, name look-ups and handshakes are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_share: Option<f64>,
    /// From the page's first byte to its last one, as they left over the hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_window_s: Option<f64>,
    /// Share of that time in which the hop towards the client was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_after_first_byte: Option<f64>,
    /// Of that idle time, seconds in which something was under way between gateway and origins, and nothing that the browser
    /// had asked for lay at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_origin_s: Option<f64>,
    /// Of that idle time, seconds in which something that the browser had asked for lay at the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_gateway_s: Option<f64>,
    /// Of that idle time, the rest: nothing that was missing had been asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_request_s: Option<f64>,
    /// [`Self::hop_idle_after_first_byte`] with the idle time that waited for the origins left out of the idle time and of
    /// the whole: what the system between browser and origins is answerable for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_without_origin: Option<f64>,
    /// 95th percentile of the queueing delay of packets towards the client.
    pub queue_p95_s: f64,
    /// Pushed bytes that the browser did not take until it had left the page.
    pub push_wasted_bytes: u64,
    /// Bytes of pushed bodies on the hop, coded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_bytes: Option<u64>,
    /// Bodies that were pushed to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_objects: Option<u64>,
    /// Of the pushed bytes, those that the browser took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_taken_bytes: Option<u64>,
    /// Of the pushed bodies, those that the browser took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_taken_objects: Option<u64>,
    /// Share of the pushed bytes that the browser took until its next navigation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_useful_bytes: Option<f64>,
    /// Share of the pushed bodies that the browser took until its next navigation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_useful_objects: Option<f64>,
    /// Bodies that the agent's cache was asked for and had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<u64>,
    /// Requests of another device beside the load that were answered during it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_requests: Option<u64>,
    /// How the agent's requests left their phases, with counts.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub exits: std::collections::BTreeMap<String, u64>,
    /// Processor time of the agent during the load.
    pub cpu_agent_s: f64,
    /// Processor time of the gateway (or other proxy) during the load.
    pub cpu_gateway_s: f64,
    /// Most memory that the agent held during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_agent_bytes: Option<u64>,
    /// Most memory that the gateway (or other proxy) held during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_gateway_bytes: Option<u64>,
    /// 99th percentile of how much later than the link model said packets were delivered: the emulator's own error.
    #[serde(default)]
    pub emulator_lateness_s: f64,
    /// The file of the loaded page's picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
    /// Share of the picture's pixels that differ from a direct load's: the median over the direct loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_differs: Option<f64>,
    /// Mean absolute difference from a direct load's picture, of the channels' range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_mean_difference: Option<f64>,
    /// The most that two direct loads' pictures differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_noise: Option<f64>,
    /// Whether the picture differs no more than direct loads do from each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_no_worse: Option<bool>,
    /// Why objects failed, at most a handful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// The load's course, for the waterfall and the curves; left out to keep a file small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// The course of a page load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The objects, in the order of asking.
    pub objects: Vec<DetailObject>,
    /// The hop, sampled at even distances.
    pub samples: Vec<Sample>,
}

/// One object of a waterfall. Times in seconds since the navigation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailObject {
    /// Its URL, shortened.
    pub url: String,
    /// `document`, `style`, `script`, `image`, `font`, `other`.
    pub class: String,
    /// `delivered`, `missing`, `failed`, `unfinished`.
    pub outcome: String,
    /// Size of its body.
    pub bytes: u64,
    /// When it was discovered.
    pub discovered: f64,
    /// When its request was sent.
    pub sent: Option<f64>,
    /// When its first byte arrived.
    pub first_byte: Option<f64>,
    /// When it ended.
    pub ended: Option<f64>,
}

/// The hop at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the navigation.
    pub at: f64,
    /// Mean rate towards the client since the sample before, bit/s.
    pub down_bps: f64,
    /// Mean rate from the client since the sample before, bit/s.
    pub up_bps: f64,
    /// Bytes waiting towards the client.
    pub queue_bytes: u64,
}

/// One bar of the transport: a figure with its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Which bar, with the condition: `1 bulk utilisation`, `1 bulk queue p95`, …
    pub id: String,
    /// Name of the link.
    pub link: String,
    /// `longhaul`, `cubic`, `bbr`, `quinn`.
    pub system: String,
    /// The measured figure, in the unit that the id names.
    pub value: f64,
    /// The limit, if this bar has one for this link.
    pub limit: Option<f64>,
    /// Whether the limit is met; none without a limit.
    pub met: Option<bool>,
}

/// A curve of the transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it shows, with unit: `goodput, bit/s`, `queueing delay, s`.
    pub what: String,
    /// Name of the link.
    pub link: String,
    /// Name of the system.
    pub system: String,
    /// The points, in order of time.
    pub points: Vec<SeriesPoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Seconds since the beginning.
    pub at: f64,
    /// The value at that time.
    pub value: f64,
}

/// A results file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("not a results file of longhaul-bench: {0}")]
pub struct ResultsError(#[from] serde_json::Error);

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    /// The text is no JSON, or lacks what a results file has.
    pub fn from_json(text: &str) -> Result<Self, ResultsError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Writes a results file.
    ///
    /// # Errors
    /// A figure is not finite.
    pub fn to_json(&self) -> Result<String, ResultsError> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}
