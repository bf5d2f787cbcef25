//! `longhaul-bench codec`: results of each coder on texts, and the product's choice compared with the best
//! one.
mod attempt;
mod regret;
mod rows;
mod tables;
mod texts;

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use longhaul_codec::EncodeError;
use longhaul_types::BitRate;

use self::{rows::Measured, texts::Text};
use crate::{CommandError, cli::CodecArgs, environment::BuildSource};

/// Link rates of the evaluated choices: GPRS, UMTS, LTE and a local network.
const RATES: [BitRate; 4] = [
    BitRate::kbps(40),
    BitRate::kbps(384),
    BitRate::kbps(10_000),
    BitRate::kbps(1_000_000),
];

/// Errors of measuring coders.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// There are no texts.
    #[error("the pages contain no texts: select pages with HTML, style sheets, scripts or data with --pages")]
    None,
    /// A coder failed.
    #[error("cannot code {url}: {source}")]
    Encode {
        /// The text.
        url: String,
        /// Error of the coder.
        source: EncodeError,
    },
    /// The operating system does not report processor time.
    #[error("this system does not report the processor time of a thread: {0}")]
    Clock(nix::Error),
    /// The results file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Runs the command.
///
/// # Errors
/// Pages cannot be read, a coder fails, or results cannot be written.
pub fn codec(args: &CodecArgs, source: BuildSource) -> Result<(), CommandError> {
    attempt::core_time().map_err(CodecError::Clock)?;
    let texts = texts::gather(&args.pages)?;
    if texts.alone.is_empty() && texts.based.is_empty() {
        return Err(CodecError::None.into());
    }
    if let Some(path) = &args.json {
        rows::probe(path)?;
    }
    let bar = bar(texts.alone.iter().chain(&texts.based));
    let measure = |texts: &[Text]| -> Result<Vec<Measured>, CodecError> {
        let measured = texts.iter().map(|text| {
            bar.set_message(text.page.clone());
            let measured = rows::measure(text, args.runs)?;
            bar.inc(text.body.len() as u64);
            Ok(measured)
        });
        measured.collect()
    };
    let (alone, based) = (measure(&texts.alone)?, measure(&texts.based)?);
    bar.finish_and_clear();
    tables::of_coders(&alone);
    tables::of_dictionaries(&alone);
    tables::of_bases(&based, texts.unchanged);
    if let Some(path) = &args.json {
        rows::write(path, source, args.runs, &alone, &based)?;
    }
    Ok(())
}

/// Returns a progress bar that counts bytes, because long texts take longer.
fn bar<'a>(texts: impl Iterator<Item = &'a Text>) -> ProgressBar {
    let bytes = texts.map(|text| text.body.len() as u64).sum();
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes}, {eta} left, {msg}");
    let bar = ProgressBar::new(bytes);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
