//! One way to code a text: its size and its time.
use std::time::Duration;

use longhaul_codec::{AdaptiveEncoder, BodyEncoder, BodyTraits, Coder, EncodeError, MAX_WINDOW, choose};
use longhaul_types::{BitRate, ByteCount};
use nix::time::{ClockId, clock_gettime};

use super::texts::Text;
use crate::statistics::quantile;

/// The coders without a base.
const ALONE: [Coder; 7] = [
    Coder::Identity,
    Coder::Zstd { level: 3 },
    Coder::Zstd { level: 9 },
    Coder::Zstd { level: 19 },
    Coder::Brotli { quality: 5 },
    Coder::Brotli { quality: 10 },
    Coder::Brotli { quality: 11 },
];
/// Those that make something of a base: the levels of Zstandard that the product has for it.
const BASED: [Coder; 4] = [
    Coder::Zstd { level: 3 },
    Coder::Zstd { level: 9 },
    Coder::Zstd { level: 15 },
    Coder::Zstd { level: 19 },
];
/// A session's key: which one makes no difference.
const KEY: [u8; 32] = [7; 32];

/// What a way of coding made of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    pub(super) coder: String,
    /// The windows, as they cross the hop.
    pub(super) wire: Vec<u8>,
    /// Processor time of one core.
    pub(super) time_s: f64,
}

/// The names of the coders, without and with a base.
pub(super) fn names() -> impl Iterator<Item = String> {
    let alone = ALONE.into_iter().map(|coder| name(coder, false));
    alone.chain(BASED.into_iter().map(|coder| name(coder, true)))
}

fn name(coder: Coder, has_base: bool) -> String {
    let name = match coder {
        Coder::Identity => "identity".to_owned(),
        Coder::Zstd { level } => format!("zstd {level}"),
        Coder::Brotli { quality } => format!("brotli {quality}"),
    };
    if has_base { format!("base, {name}") } else { name }
}

/// Every coder on a text, with its base, too, if it has one.
pub(super) fn all(text: &Text, runs: u32) -> Result<Vec<Attempt>, EncodeError> {
    let mut attempts = Vec::new();
    let alone = ALONE.into_iter().map(|coder| (coder, None));
    let base = text.base.as_deref();
    let based = BASED
        .into_iter()
        .filter_map(|coder| base.map(|base| (coder, Some(base))));
    for (coder, base) in alone.chain(based) {
        attempts.push(coded(text, coder, base, runs)?);
    }
    Ok(attempts)
}

fn coded(text: &Text, coder: Coder, base: Option<&[u8]>, runs: u32) -> Result<Attempt, EncodeError> {
    let (wire, time_s) = timed(runs, || {
        let mut wire = Vec::new();
        let length = Some(length(text));
        let mut encoder = BodyEncoder::with_base(KEY, coder, length, base.unwrap_or_default())?;
        encoder.push(&text.body, &mut wire)?;
        encoder.finish(&mut wire)?;
        Ok(wire)
    })?;
    Ok(Attempt {
        coder: name(coder, base.is_some()),
        wire,
        time_s,
    })
}

/// What the product does at this rate. Without a base its figures are those of the coder that it chooses; with one the
/// choice takes trials, so it is measured itself.
pub(super) fn chosen(
    text: &Text,
    link: BitRate,
    attempts: &[Attempt],
    runs: u32,
) -> Result<Attempt, EncodeError> {
    let traits = BodyTraits {
        content_type: Some(&text.content_type),
        length: Some(length(text)),
        link: Some(link),
    };
    let Some(base) = &text.base else {
        return by_type(text, traits, attempts, runs);
    };
    let (wire, time_s) = timed(runs, || {
        let mut wire = Vec::new();
        let mut encoder = AdaptiveEncoder::new(KEY, traits).with_bases(vec![base.clone()]);
        encoder.push(&text.body, &mut wire)?;
        encoder.finish(&mut wire)?;
        Ok(wire)
    })?;
    // The encoder does not tell its level, but no two of them make the same.
    let same = attempts.iter().find(|attempt| attempt.wire == wire);
    Ok(Attempt {
        coder: same.map_or_else(|| "another".to_owned(), |attempt| attempt.coder.clone()),
        wire,
        time_s,
    })
}

fn by_type(
    text: &Text,
    traits: BodyTraits<'_>,
    attempts: &[Attempt],
    runs: u32,
) -> Result<Attempt, EncodeError> {
    let first = text.body.get(..MAX_WINDOW).unwrap_or(&text.body);
    let coder = choose(traits, first);
    let measured = |coder: Coder| {
        let name = name(coder, false);
        attempts.iter().find(|attempt| attempt.coder == name).cloned()
    };
    let attempt = match measured(coder) {
        Some(attempt) => attempt,
        None => coded(text, coder, None, runs)?,
    };
    // What grows is left as it is, but the trial has taken its time.
    let kept = measured(Coder::Identity).filter(|identity| identity.wire.len() < attempt.wire.len());
    Ok(kept.map_or_else(
        || attempt.clone(),
        |identity| Attempt {
            time_s: identity.time_s + attempt.time_s,
            ..identity
        },
    ))
}

fn length(text: &Text) -> ByteCount {
    ByteCount::new(text.body.len() as u64)
}

/// What `work` makes, and the median of the processor time of its runs.
fn timed<R>(runs: u32, work: impl Fn() -> Result<R, EncodeError>) -> Result<(R, f64), EncodeError> {
    let mut times = Vec::new();
    let mut run = || {
        let start = core_time().unwrap_or_default();
        let result = work();
        let end = core_time().unwrap_or_default();
        times.push(end.saturating_sub(start).as_secs_f64());
        result
    };
    let result = run()?;
    for _ in 1..runs {
        run()?;
    }
    Ok((result, quantile(&mut times, 0.5)))
}

/// Time that this thread has been running, not waiting for a core: other programs do not lengthen it.
pub(super) fn core_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
