//! Details of a load, for the waterfall and the curves of the report.
use std::time::Duration;

use longhaul_loader::{ObjectLoad, Outcome};
use longhaul_report::{Detail, DetailObject, Sample};
use longhaul_types::{BitRate, ByteCount, ContentHash, Timestamp};
use longhaul_world::LinkSample;

use super::browser::SAMPLE;

/// Maximum length of a URL in a waterfall.
const MAX_URL: usize = 96;
/// Maximum number of objects in a waterfall; more are not distinguishable on a page.
const MAX_OBJECTS: usize = 400;
/// Minimum bytes per point of a curve: four full packets.
const SMOOTHED: ByteCount = ByteCount::new(6000);
/// Maximum number of points of a curve.
const MAX_SAMPLES: usize = 240;

/// Returns the details between `start` and `end` over a link of this rate.
pub(super) fn detail(
    objects: &[ObjectLoad],
    samples: &[LinkSample],
    start: Timestamp,
    end: Timestamp,
    rate: BitRate,
) -> Detail {
    Detail {
        objects: objects.iter().take(MAX_OBJECTS).map(detail_object).collect(),
        samples: curve(samples, start, end, rate),
    }
}

fn detail_object(object: &ObjectLoad) -> DetailObject {
    let seconds = |time: Option<Duration>| time.map(|time| rounded(time.as_secs_f64()));
    DetailObject {
        url: shortened(object.url.as_str()),
        key: ContentHash::of(object.url.as_str().as_bytes()).to_string(),
        class: name(&object.class),
        outcome: match &object.outcome {
            Outcome::Failed(_) => "failed".to_owned(),
            Outcome::Delivered | Outcome::Missing | Outcome::Unfinished => name(&object.outcome),
        },
        bytes: object.body_bytes,
        discovered: rounded(object.discovered.as_secs_f64()),
        sent: seconds(object.sent),
        first_byte: seconds(object.first_byte),
        ended: seconds(object.ended),
    }
}

/// Returns the name of a variant in JSON.
pub(super) fn name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Rounds to the microsecond, which keeps files small.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

pub(super) fn shortened(url: &str) -> String {
    if url.chars().count() <= MAX_URL {
        return url.to_owned();
    }
    let kept: String = url.chars().take(MAX_URL - 1).collect();
    format!("{kept}…")
}

/// Returns the curve of a load: samples reduced, counters converted to rates. A point covers at least a few
/// packets, so that the curve of a slow link shows its rate and not single packets.
fn curve(samples: &[LinkSample], start: Timestamp, end: Timestamp, rate: BitRate) -> Vec<Sample> {
    let within: Vec<_> = samples
        .iter()
        .filter(|sample| sample.at >= start && sample.at <= end)
        .collect();
    let packets = SMOOTHED / rate;
    let smooth = usize::try_from(packets.as_nanos().div_ceil(SAMPLE.as_nanos())).unwrap_or(1);
    let step = within.len().div_ceil(MAX_SAMPLES).max(smooth).max(1);
    let kept: Vec<_> = within.iter().step_by(step).collect();
    let pairs = kept.windows(2);
    pairs
        .filter_map(|pair| {
            let [before, after] = pair else { return None };
            let seconds = (after.at - before.at).as_secs_f64().max(1e-9);
            #[expect(clippy::cast_precision_loss, reason = "bytes of one load")]
            let rate =
                |later: u64, earlier: u64| (later.saturating_sub(earlier) as f64 * 8.0 / seconds).round();
            Some(Sample {
                at: rounded((after.at - start).as_secs_f64()),
                down_bps: rate(after.down_bytes_sent.bytes(), before.down_bytes_sent.bytes()),
                up_bps: rate(after.up_bytes_sent.bytes(), before.up_bytes_sent.bytes()),
                queue_bytes: after.down_queued.bytes(),
            })
        })
        .collect()
}
