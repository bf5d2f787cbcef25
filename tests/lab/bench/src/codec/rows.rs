//! Results and their file.
use std::{
    fs::{self, OpenOptions},
    path::Path,
};

use serde::Serialize;

use super::{
    CodecError, RATES,
    attempt::{self, Attempt},
    regret,
    texts::{Kind, SizeClass, Text},
};
use crate::environment::{BuildSource, environment};

/// All attempts to code one text, and the product's choice at each rate.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) page: String,
    edition: usize,
    url: String,
    #[serde(serialize_with = "kind_name")]
    pub(super) kind: Kind,
    #[serde(serialize_with = "class_name")]
    pub(super) size_class: SizeClass,
    pub(super) bytes: usize,
    base_bytes: Option<usize>,
    pub(super) coders: Vec<Coding>,
    /// One for each rate.
    pub(super) choices: Vec<Choice>,
}

/// Result of one coder.
#[derive(Serialize)]
pub(super) struct Coding {
    pub(super) coder: String,
    pub(super) bytes: usize,
    pub(super) time_s: f64,
}

/// The product's choice, and the best coder in hindsight.
#[derive(Serialize)]
pub(super) struct Choice {
    pub(super) link_bps: u64,
    pub(super) coder: String,
    pub(super) bytes: usize,
    time_s: f64,
    /// Time for coding and then sending.
    pub(super) total_s: f64,
    pub(super) best_coder: String,
    pub(super) best_total_s: f64,
    /// `total_s` divided by `best_total_s`.
    pub(super) regret: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn kind_name<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn class_name<S: serde::Serializer>(class: &SizeClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.name())
}

/// Codes a text with every coder.
pub(super) fn measure(text: &Text, runs: u32) -> Result<Measured, CodecError> {
    let failed = |source| CodecError::Encode {
        url: text.url.clone(),
        source,
    };
    let attempts = attempt::all(text, runs).map_err(failed)?;
    let mut choices = Vec::new();
    for link in RATES {
        let chosen = attempt::chosen(text, link, &attempts, runs).map_err(failed)?;
        let best = regret::best(&attempts, link).unwrap_or(&chosen);
        let (total_s, best_total_s) = (regret::total(&chosen, link), regret::total(best, link));
        choices.push(Choice {
            link_bps: link.as_bps(),
            bytes: chosen.wire.len(),
            time_s: chosen.time_s,
            total_s,
            best_coder: best.coder.clone(),
            best_total_s,
            regret: total_s / best_total_s,
            coder: chosen.coder,
        });
    }
    let coding = |attempt: Attempt| Coding {
        coder: attempt.coder,
        bytes: attempt.wire.len(),
        time_s: attempt.time_s,
    };
    Ok(Measured {
        page: text.page.clone(),
        edition: text.edition,
        url: text.url.clone(),
        kind: text.kind,
        size_class: text.size_class(),
        bytes: text.body.len(),
        base_bytes: text.base.as_ref().map(bytes::Bytes::len),
        coders: attempts.into_iter().map(coding).collect(),
        choices,
    })
}

#[derive(Serialize)]
struct Results<'a> {
    environment: longhaul_report::Environment,
    runs: u32,
    texts: &'a [Measured],
    bases: &'a [Measured],
}

/// Fails if a file cannot be written, before the measurements begin.
pub(super) fn probe(path: &Path) -> Result<(), CodecError> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).map_err(|source| fault(path, source))
}

pub(super) fn write(
    path: &Path,
    source: BuildSource,
    runs: u32,
    texts: &[Measured],
    bases: &[Measured],
) -> Result<(), CodecError> {
    let results = Results {
        environment: environment(source, 0, Path::new(".")),
        runs,
        texts,
        bases,
    };
    let text = serde_json::to_string_pretty(&results).map_err(|error| fault(path, error.into()))?;
    fs::write(path, text).map_err(|source| fault(path, source))
}

fn fault(path: &Path, source: std::io::Error) -> CodecError {
    CodecError::Write {
        path: path.to_owned(),
        source,
    }
}
