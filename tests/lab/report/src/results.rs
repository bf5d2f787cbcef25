//! Results file, written by `longhaul-bench` and read by the report (docs/BENCHMARKING.md).
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A results file. Unknown fields are ignored, so that an older command can read a newer file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Environment of the measurement.
    pub environment: Environment,
    /// One row per page load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The transport's bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// The transport's curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
}

/// Environment of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Model of the processor and the number of cores.
    pub cpu: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Versions of the programs involved, and the kernel's congestion control, by name.
    pub versions: BTreeMap<String, String>,
    /// Commit of Longhaul, empty if unknown.
    pub commit: String,
    /// Seed of the links and of the order of loads.
    pub seed: u64,
    /// UTC date and time at which the run began, RFC 3339.
    pub date: String,
}

/// Value of [`Row::conditions`] for a load during a bulk download through the same system.
pub const BESIDE_BULK: &str = "beside a bulk download";
/// Value of [`Row::conditions`] for a load during continuous requests of another device to the page's host.
pub const BESIDE_REQUESTS: &str = "beside another device's requests";

/// Returns the value of [`Row::conditions`] for a load with one pipelined connection and this maximum number of
/// unanswered requests.
pub fn outstanding(requests: u32) -> String {
    format!("one connection, {requests} requests outstanding")
}

/// Value of [`Row::conditions`] for a load whose motion was suppressed for a screenshot.
pub const HELD_STILL: &str = "held still for pictures";
/// Value of [`Row::scheme`] for a page that was loaded under its own scheme or that of its recording.
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
    /// State of the caches: `first`, `cold`, `second-device`, `third-device`, `revisit`, `next-edition`, `sibling`,
    /// `warm`.
    pub state: String,
    /// `model` or `chromium`.
    pub loader: String,
    /// `recorded`, or `http` if the load of a recorded page began under http, whatever its recorded scheme.
    #[serde(default = "as_recorded")]
    pub scheme: String,
    /// Domains that had another name in a load over http, because the browser loads them only over https.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<String>,
    /// Level of image quality: `original`, `high`, `medium`, `low`, `text`.
    pub image_level: String,
    /// Number of the repetition, from 1.
    pub run: u32,
    /// Share of packets that the Internet loses in each direction, 0 to 1.
    #[serde(default)]
    pub internet_loss: f64,
    /// Other unusual conditions: origins with think time or closing connections, a congestion control by
    /// name; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub conditions: String,
    /// Techniques of Longhaul that were switched off, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Load time.
    pub time_s: f64,
    /// First byte of the page, after redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_s: Option<f64>,
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
    /// Time of the ideal protocol with text gzip -9 and images as delivered in this load.
    pub ideal_lossy_s: f64,
    /// Bytes of IP packets that the hop carried towards the client.
    pub bytes_down: u64,
    /// Bytes of IP packets that the hop carried from the client.
    pub bytes_up: u64,
    /// Bytes of IP packets that the Internet carried towards the gateway (or the client, without one).
    pub origin_bytes: u64,
    /// Size of the page's text, each object compressed by gzip -9.
    pub bytes_gzip_text: u64,
    /// Size of the page's images as delivered in this load.
    pub bytes_image_delivered: u64,
    /// The hop's raw rate towards the client, bit/s.
    pub link_down_bps: u64,
    /// The hop's idle round-trip time.
    pub link_rtt_s: f64,
    /// Number of delivered objects.
    pub objects: u64,
    /// Objects that a direct load of this page received and this one did not, or errors of the system.
    pub failed: u64,
    /// Objects that do not exist: 404, no such name.
    pub missing: u64,
    /// Bytes of all delivered bodies, without content codings.
    #[serde(default)]
    pub body_bytes: u64,
    /// Delivered objects over plain http, which a proxy can read. The others were tunnelled.
    #[serde(default)]
    pub http_objects: u64,
    /// Part of [`Self::body_bytes`] over plain http.
    #[serde(default)]
    pub http_bytes: u64,
    /// TCP connections that the browser opened.
    pub connections: u64,
    /// Number of DNS queries that crossed the hop.
    pub dns_lookups: u64,
    /// Pipelining factor (scripted browser).
    pub pipelining_factor: Option<f64>,
    /// Share of the time in which an ideal sender would have kept the hop busy and the hop was idle.
    pub hop_idle_while_missing: f64,
    /// Share of the time from the navigation to the last byte in which the hop towards the client was idle.
    /// Bytes were missing during all of that time: it includes the transfer of the request, name resolution
    /// and handshakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_share: Option<f64>,
    /// Time from the page's first byte to its last byte, as sent on the hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_window_s: Option<f64>,
    /// Share of that time in which the hop towards the client was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_after_first_byte: Option<f64>,
    /// Seconds of that idle time in which data was in transit between gateway and origins, and the gateway
    /// held no data that the browser had requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_origin_s: Option<f64>,
    /// Seconds of that idle time in which the gateway held data that the browser had requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_gateway_s: Option<f64>,
    /// The rest of that idle time in seconds: the browser had not requested the missing data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_request_s: Option<f64>,
    /// [`Self::hop_idle_after_first_byte`] without the idle time that waited for the origins, in numerator
    /// and denominator: the share for which the system between browser and origins is responsible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_idle_without_origin: Option<f64>,
    /// 95th percentile of the queueing delay of packets towards the client.
    pub queue_p95_s: f64,
    /// Pushed bytes that the browser did not use until it left the page.
    pub push_wasted_bytes: u64,
    /// Bytes of pushed bodies on the hop, coded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_bytes: Option<u64>,
    /// Number of completely pushed bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pushed_objects: Option<u64>,
    /// Pushed bytes that the browser used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_taken_bytes: Option<u64>,
    /// Number of pushed bodies that the browser used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_taken_objects: Option<u64>,
    /// Share of the pushed bytes that the browser used until its next navigation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_useful_bytes: Option<f64>,
    /// Share of the pushed bodies that the browser used until its next navigation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_useful_objects: Option<f64>,
    /// Number of cache hits for bodies in the agent's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<u64>,
    /// Requests of another device that were answered during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_requests: Option<u64>,
    /// Numbers of the agent's requests by their exit from each phase.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exits: BTreeMap<String, u64>,
    /// Requests that the agent forwarded over the hop and that the gateway answered themselves, that of the page
    /// included; `None` if the agent saw no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<u64>,
    /// Forwarded requests without that of the page, by the class of the object and the agent's reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub late: BTreeMap<String, BTreeMap<String, u64>>,
    /// Requests of the load that it does not teach, by the gateway's reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lessons_refused: BTreeMap<String, u64>,
    /// The same of the visits before the load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lessons_refused_before: BTreeMap<String, u64>,
    /// Processor time of the agent during the load.
    pub cpu_agent_s: f64,
    /// Processor time of the gateway (or other proxy) during the load.
    pub cpu_gateway_s: f64,
    /// Maximum memory of the agent during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_agent_bytes: Option<u64>,
    /// Maximum memory of the gateway (or other proxy) during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_gateway_bytes: Option<u64>,
    /// Processor time of all processes of Chromium during the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_browser_s: Option<f64>,
    /// Memory of all processes of Chromium at the end of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_browser_bytes: Option<u64>,
    /// 99th percentile of the delay of packet deliveries compared with the link model: the emulator's own
    /// error.
    #[serde(default)]
    pub emulator_lateness_s: f64,
    /// File name of the loaded page's screenshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<String>,
    /// Share of the screenshot's pixels that differ from a direct load's: the median over the direct loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_differs: Option<f64>,
    /// Mean absolute difference from a direct load's screenshot, as a share of the channels' range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_mean_difference: Option<f64>,
    /// Maximum difference between the screenshots of two direct loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_noise: Option<f64>,
    /// True if the screenshot differs no more than direct loads do from each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screenshot_no_worse: Option<bool>,
    /// Reasons of failed objects, at most a handful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Details of the load, for the waterfall and the curves; omitted to reduce the file size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// Details of a page load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The objects, in the order of the requests.
    pub objects: Vec<DetailObject>,
    /// Samples of the hop, at equal intervals.
    pub samples: Vec<Sample>,
}

/// One object of a waterfall. Times in seconds since the navigation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DetailObject {
    /// Its URL, shortened.
    pub url: String,
    /// Hash of the whole URL, by which loads are compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `document`, `style`, `script`, `image`, `font`, `other`.
    pub class: String,
    /// `delivered`, `missing`, `failed`, `unfinished`.
    pub outcome: String,
    /// Size of its body.
    pub bytes: u64,
    /// Time of discovery.
    pub discovered: f64,
    /// Time of the request.
    pub sent: Option<f64>,
    /// Time of the first byte.
    pub first_byte: Option<f64>,
    /// Time of the end.
    pub ended: Option<f64>,
}

/// State of the hop at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the navigation.
    pub at: f64,
    /// Mean rate towards the client since the previous sample, bit/s.
    pub down_bps: f64,
    /// Mean rate from the client since the previous sample, bit/s.
    pub up_bps: f64,
    /// Bytes in the queue towards the client.
    pub queue_bytes: u64,
}

/// One bar of the transport: a figure with its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// Name of the bar with its condition: `1 bulk utilisation`, `1 bulk queue p95`, …
    pub id: String,
    /// Name of the link.
    pub link: String,
    /// `longhaul`, `cubic`, `bbr`, `quinn`.
    pub system: String,
    /// The measured figure, in the unit of the id.
    pub value: f64,
    /// The limit, if this bar has one for this link.
    pub limit: Option<f64>,
    /// True if the limit is met; `None` without a limit.
    pub met: Option<bool>,
}

/// A curve of the transport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Quantity with unit: `goodput, bit/s`, `queueing delay, s`.
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

/// Error of reading a results file.
#[derive(Debug, thiserror::Error)]
#[error("not a results file of longhaul-bench: {0}")]
pub struct ResultsError(#[from] serde_json::Error);

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    /// The text is not JSON, or lacks a required field.
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
