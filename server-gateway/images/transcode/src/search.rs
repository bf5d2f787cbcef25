//! Search for the lowest quality that reaches a score.
use crate::encode::{Chroma, EncodeError};

/// Lower qualities save hardly a byte, and show blocks that the metric does not penalize.
pub(crate) const LEAST_QUALITY: f32 = 8.0;
/// Maximum number of encodings, once the chroma method is known.
const STEPS: usize = 5;
/// Tolerance below the target score: less than the eye or the metric distinguishes.
const BELOW: f64 = 0.5;
/// Tolerance above the target score: a further step would save about two percent of the bytes.
const ABOVE: f64 = 1.0;
/// Default estimate of the score gained per step of quality.
const SLOPE: f64 = 0.8;

/// Relative growth of a file per point of score: 2 to 5 percent near the targets.
const GROWTH: f64 = 0.035;

/// An encoding and its score.
#[derive(Clone, Debug)]
pub(crate) struct ScoredEncoding {
    pub(crate) webp: Vec<u8>,
    pub(crate) setting: EncoderSettings,
    pub(crate) score: f64,
}

/// Parameters that determine the size and similarity of an encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EncoderSettings {
    pub(crate) quality: f32,
    pub(crate) chroma: Chroma,
}

/// Start of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    /// Starts at this quality, and tries both chroma methods.
    Quality(f32),
    /// Starts at this setting, whose chroma method is known to suit the image.
    Settings(EncoderSettings),
}

/// A tried quality and its score.
#[derive(Clone, Copy)]
struct Point {
    quality: f64,
    score: f64,
}

/// Encodes at qualities near `start` until the score reaches `target`, and returns the smallest result that
/// does, or the best one if none does. `None` if the image cannot be measured.
pub(crate) fn reach(
    target: f64,
    start: Start,
    encode: impl Fn(EncoderSettings) -> Result<Vec<u8>, EncodeError>,
    score: impl Fn(&[u8]) -> Option<f64>,
) -> Result<Option<ScoredEncoding>, EncodeError> {
    let attempt = |setting: EncoderSettings| -> Result<Option<ScoredEncoding>, EncodeError> {
        let webp = encode(setting)?;
        Ok(score(&webp).map(|score| ScoredEncoding { webp, setting, score }))
    };
    let Some(mut tried) = first(start, &attempt)? else {
        return Ok(None);
    };
    let (mut below, mut above) = (None::<Point>, None::<Point>);
    let mut best: Option<ScoredEncoding> = None;
    for step in 0..STEPS {
        let (score, EncoderSettings { quality, chroma }) = (tried.score, tried.setting);
        let point = Point {
            quality: f64::from(quality),
            score,
        };
        if best.as_ref().is_none_or(|best| better(&tried, best, target)) {
            best = Some(tried);
        }
        if score < target - BELOW {
            below = Some(point);
        } else if score > target + ABOVE {
            above = Some(point);
        } else {
            break;
        }
        if step + 1 == STEPS {
            break;
        }
        let Some(quality) = next(target, below, above).map(single) else {
            break;
        };
        let Some(again) = attempt(EncoderSettings { quality, chroma })? else {
            break;
        };
        tried = again;
    }
    Ok(best)
}

/// Makes the first encoding. Without a given chroma method, the method that costs less for its score is used.
fn first(
    start: Start,
    attempt: &impl Fn(EncoderSettings) -> Result<Option<ScoredEncoding>, EncodeError>,
) -> Result<Option<ScoredEncoding>, EncodeError> {
    let clamped = |quality: f32| quality.clamp(LEAST_QUALITY, 100.0);
    let quality = match start {
        Start::Settings(EncoderSettings { quality, chroma }) => {
            return attempt(EncoderSettings {
                quality: clamped(quality),
                chroma,
            });
        }
        Start::Quality(quality) => clamped(quality),
    };
    let [mean, sharp] = [Chroma::Mean, Chroma::Sharp].map(|chroma| EncoderSettings { quality, chroma });
    let (Some(mean), Some(sharp)) = (attempt(mean)?, attempt(sharp)?) else {
        return Ok(None);
    };
    Ok(Some(if cost(&sharp) < cost(&mean) { sharp } else { mean }))
}

/// Returns the logarithm of the estimated bytes of the encoding at score 0.
fn cost(found: &ScoredEncoding) -> f64 {
    let bytes = f64::from(u32::try_from(found.webp.len()).unwrap_or(u32::MAX));
    bytes.max(1.0).ln() - GROWTH * found.score
}

fn better(found: &ScoredEncoding, best: &ScoredEncoding, target: f64) -> bool {
    let met = |found: &ScoredEncoding| found.score >= target - BELOW;
    match (met(found), met(best)) {
        (true, true) => found.webp.len() < best.webp.len(),
        (false, false) => found.score > best.score,
        (met, _) => met,
    }
}

/// Returns the next quality to try, a whole number; `None` if there is none between the tried ones.
fn next(target: f64, below: Option<Point>, above: Option<Point>) -> Option<f64> {
    let wanted = target + (ABOVE - BELOW) / 2.0;
    let (guess, low, high) = match (below, above) {
        (None, None) => return None,
        (Some(below), None) => {
            // The curve is steeper at lower qualities; a generous step soon finds an upper bound.
            let step = (wanted - below.score) / SLOPE * 1.2;
            (below.quality + step.max(2.0), below.quality, 101.0)
        }
        (None, Some(above)) => {
            let step = (above.score - wanted) / SLOPE;
            (
                above.quality - step.max(2.0),
                f64::from(LEAST_QUALITY) - 1.0,
                above.quality,
            )
        }
        (Some(below), Some(above)) => {
            let share = (wanted - below.score) / (above.score - below.score).max(1e-6);
            let guess = below.quality + share * (above.quality - below.quality);
            (guess, below.quality, above.quality)
        }
    };
    let (least, most) = (low.floor() + 1.0, high.ceil() - 1.0);
    (least <= most).then(|| guess.round().clamp(least, most))
}

#[expect(clippy::cast_possible_truncation, reason = "a quality from 0 to 100")]
fn single(quality: f64) -> f32 {
    quality as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a codec whose score rises with quality as in a real codec.
    fn search(target: f64, start: f32, offset: f64) -> ScoredEncoding {
        let encode = |setting: EncoderSettings| {
            let steps = (1_u8..=100)
                .take_while(|&step| f32::from(step) <= setting.quality)
                .count();
            Ok(vec![0; 100 + steps])
        };
        let score = |webp: &[u8]| {
            let quality = (webp.len() - 100) as f64;
            Some(offset + 30.0 * (1.0 + quality / 6.0).ln())
        };
        reach(target, Start::Quality(start), encode, score)
            .unwrap()
            .unwrap()
    }

    #[test]
    fn the_search_reaches_the_score_from_any_start() {
        for start in [5.0, 40.0, 80.0, 98.0] {
            for offset in [-20.0, -5.0, 0.0] {
                for target in [40.0, 60.0] {
                    let found = search(target, start, offset);
                    let off = found.score - target;
                    assert!((-0.5..5.0).contains(&off), "{target} from {start}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn an_unreachable_score_gives_the_best_quality() {
        let found = search(95.0, 50.0, -20.0);
        assert!(found.setting.quality > 95.0, "{}", found.setting.quality);
    }
}
