//! Durations, sizes and rates as text with a unit. A number without a unit is rejected.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, ParseUnitError};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Parses a duration, such as `500ms`, `30 s` or `5min`.
///
/// # Errors
/// The text has no number or no known unit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    longhaul_types::parse_duration(text)
}

/// Parses a size, such as `64 MiB`. Zero needs no unit.
///
/// # Errors
/// The text has no number or no known unit.
pub fn parse_size(text: &str) -> Result<ByteCount, ParseUnitError> {
    if text.trim() == "0" {
        return Ok(ByteCount::ZERO);
    }
    text.parse()
}

/// Parses a rate, such as `384 kbit/s`.
///
/// # Errors
/// The text has no number or no known unit.
pub fn parse_rate(text: &str) -> Result<BitRate, ParseUnitError> {
    text.parse()
}

/// Formats a duration in seconds, so that parsing returns the same duration to the nanosecond.
pub fn show_duration(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// Formats a size so that parsing returns the same size. Zero needs no unit.
pub fn show_size(size: ByteCount) -> String {
    match size.bytes() {
        0 => "0".to_owned(),
        bytes if bytes % MIB == 0 => format!("{} MiB", bytes / MIB),
        bytes if bytes % KIB == 0 => format!("{} KiB", bytes / KIB),
        bytes => format!("{bytes} B"),
    }
}

/// Formats a rate so that parsing returns the same rate.
pub fn show_rate(rate: BitRate) -> String {
    match rate.as_bps() {
        0 => "0 bit/s".to_owned(),
        bits if bits % 1_000_000 == 0 => format!("{} Mbit/s", bits / 1_000_000),
        bits if bits % 1000 == 0 => format!("{} kbit/s", bits / 1000),
        bits => format!("{bits} bit/s"),
    }
}

/// Formats a bound in the largest unit that needs no fraction, for people.
pub(crate) fn bound_of_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() != 0 || seconds == 0 {
        return show_duration(duration);
    }
    let units = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    let (unit, factor) = units
        .into_iter()
        .find(|(_, factor)| seconds.is_multiple_of(*factor))
        .unwrap_or(("s", 1));
    format!("{}{unit}", seconds / factor)
}

/// Formats a bound in the largest unit that needs no fraction, for people.
pub(crate) fn bound_of_size(size: ByteCount) -> String {
    match size.bytes() {
        bytes if bytes >= GIB && bytes % GIB == 0 => format!("{} GiB", bytes / GIB),
        _ => show_size(size),
    }
}
