//! Attempts to code a text: size and time.
use std::time::Duration;

use bytes::Bytes;
use longhaul_codec::{
    AdaptiveEncoder, BodyEncoder, BodyTraits, Coder, EncodeError, MAX_WINDOW, choose, dictionary,
};
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
/// The coders with a base: those of the product, and Zstandard at its highest level.
const BASED: [Coder; 7] = [
    Coder::Zstd { level: 3 },
    Coder::Zstd { level: 9 },
    Coder::Zstd { level: 19 },
    Coder::Brotli { quality: 5 },
    Coder::Brotli { quality: 9 },
    Coder::Brotli { quality: 10 },
    Coder::Brotli { quality: 11 },
];
/// Session key; its value does not affect the results.
const KEY: [u8; 32] = [7; 32];

/// Result of coding a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    pub(super) coder: String,
    /// The windows in wire format.
    pub(super) wire: Vec<u8>,
    /// Processor time on one core.
    pub(super) time_s: f64,
}

/// Additional data of a coder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    None,
    /// The previous edition.
    Base,
    Dictionary,
}

/// Returns the names of the coders, without and with a base or a dictionary.
pub(super) fn names() -> impl Iterator<Item = String> {
    let alone = ALONE.into_iter().map(|coder| name(coder, Help::None));
    let based = [Help::Base, Help::Dictionary].map(|help| BASED.map(|coder| name(coder, help)));
    alone.chain(based.into_iter().flatten())
}

/// Returns true if the coder with this name uses a dictionary.
pub(super) fn has_dictionary(name: &str) -> bool {
    name.starts_with("dictionary, ")
}

fn name(coder: Coder, help: Help) -> String {
    let name = match coder {
        Coder::Identity => "identity".to_owned(),
        Coder::Zstd { level } => format!("zstd {level}"),
        Coder::Brotli { quality } => format!("brotli {quality}"),
    };
    match help {
        Help::None => name,
        Help::Base => format!("base, {name}"),
        Help::Dictionary => format!("dictionary, {name}"),
    }
}

/// Codes a text with every coder: with its base if it has one, or else with the most effective dictionary, if
/// one is suitable.
pub(super) fn all(text: &Text, runs: u32) -> Result<Vec<Attempt>, EncodeError> {
    let mut attempts = Vec::new();
    for coder in ALONE {
        attempts.push(coded(text, coder, Help::None, &[], runs)?);
    }
    let dictionaries = dictionaries(text);
    for coder in BASED {
        if let Some(base) = &text.base {
            attempts.push(coded(text, coder, Help::Base, base, runs)?);
        }
        let with = dictionaries
            .iter()
            .map(|base| coded(text, coder, Help::Dictionary, base, runs));
        let with = with.collect::<Result<Vec<_>, _>>()?;
        attempts.extend(with.into_iter().min_by_key(|attempt| attempt.wire.len()));
    }
    Ok(attempts)
}

/// Returns the dictionaries for a text without a base.
fn dictionaries(text: &Text) -> Vec<Bytes> {
    match text.base {
        Some(_) => Vec::new(),
        None => dictionary::made_for(&text.content_type, first(text)),
    }
}

fn coded(text: &Text, coder: Coder, help: Help, base: &[u8], runs: u32) -> Result<Attempt, EncodeError> {
    let (wire, time_s) = timed(runs, || {
        let mut wire = Vec::new();
        let length = Some(length(text));
        let mut encoder = BodyEncoder::with_base(KEY, coder, length, base)?;
        encoder.push(&text.body, &mut wire)?;
        encoder.finish(&mut wire)?;
        Ok(wire)
    })?;
    Ok(Attempt {
        coder: name(coder, help),
        wire,
        time_s,
    })
}

/// Returns the product's choice at this rate. Without base and dictionary the figures are those of the chosen
/// coder; otherwise the choice requires trials, so it is measured itself.
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
        ..BodyTraits::default()
    };
    if text.base.is_none() && dictionaries(text).is_empty() {
        return by_type(text, traits, attempts, runs);
    }
    let (wire, time_s) = timed(runs, || {
        let mut wire = Vec::new();
        let mut encoder = AdaptiveEncoder::new(KEY, traits)
            .with_bases(text.base.iter().cloned().collect())
            .with_dictionaries(dictionary::NEWEST_SET);
        encoder.push(&text.body, &mut wire)?;
        encoder.finish(&mut wire)?;
        Ok(wire)
    })?;
    // The encoder does not report its level, but different levels give different results.
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
    let coder = choose(traits, first(text));
    let measured = |coder: Coder| {
        let name = name(coder, Help::None);
        attempts.iter().find(|attempt| attempt.coder == name).cloned()
    };
    let attempt = match measured(coder) {
        Some(attempt) => attempt,
        None => coded(text, coder, Help::None, &[], runs)?,
    };
    // A body that would grow is sent unchanged, but the trial has taken its time.
    let kept = measured(Coder::Identity).filter(|identity| identity.wire.len() < attempt.wire.len());
    Ok(kept.map_or_else(
        || attempt.clone(),
        |identity| Attempt {
            time_s: identity.time_s + attempt.time_s,
            ..identity
        },
    ))
}

fn first(text: &Text) -> &[u8] {
    text.body.get(..MAX_WINDOW).unwrap_or(&text.body)
}

fn length(text: &Text) -> ByteCount {
    ByteCount::new(text.body.len() as u64)
}

/// Returns the result of `work`, and the median of the processor time of its runs.
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

/// Returns the running time of this thread, without waiting for a core: other programs do not affect it.
pub(super) fn core_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}
