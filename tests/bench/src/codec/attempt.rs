//! One way to code a text: its size and its time.
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
/// Those with a base: what the product has for it, and Zstandard at its best.
const BASED: [Coder; 7] = [
    Coder::Zstd { level: 3 },
    Coder::Zstd { level: 9 },
    Coder::Zstd { level: 19 },
    Coder::Brotli { quality: 5 },
    Coder::Brotli { quality: 9 },
    Coder::Brotli { quality: 10 },
    Coder::Brotli { quality: 11 },
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

/// What a coder has besides the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    None,
    /// The edition before.
    Base,
    Dictionary,
}

/// The names of the coders, without and with a base or a dictionary.
pub(super) fn names() -> impl Iterator<Item = String> {
    let alone = ALONE.into_iter().map(|coder| name(coder, Help::None));
    let based = [Help::Base, Help::Dictionary].map(|help| BASED.map(|coder| name(coder, help)));
    alone.chain(based.into_iter().flatten())
}

/// Whether a coder of this name has a dictionary.
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

/// Every coder on a text, with its base, too, if it has one, or else with the dictionary that helps most, if one fits.
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

/// Those that are made for a text that has no base.
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

/// What the product does at this rate. Without base and dictionary its figures are those of the coder that it chooses;
/// with one the choice takes trials, so it is measured itself.
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
    let coder = choose(traits, first(text));
    let measured = |coder: Coder| {
        let name = name(coder, Help::None);
        attempts.iter().find(|attempt| attempt.coder == name).cloned()
    };
    let attempt = match measured(coder) {
        Some(attempt) => attempt,
        None => coded(text, coder, Help::None, &[], runs)?,
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

fn first(text: &Text) -> &[u8] {
    text.body.get(..MAX_WINDOW).unwrap_or(&text.body)
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
