//! Values in a link's definition.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, parse_duration};
use toml::{Table, Value};

use crate::Probability;

use super::mistake::{LinkMistake, Mistake};

/// Maximum number of mistakes in one report; more are usually repetitions of the same mistake.
const MAX_MISTAKES: usize = 50;
/// Maximum characters of an invalid value in an error message.
const MAX_ECHO: usize = 60;
/// Maximum delay of a link. With a longer delay the packets in flight limit the link, not its rate.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Maximum time in a schedule: no run lasts as long.
const MAX_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Minimum queue: a packet of full size must fit, or none ever passes.
const MIN_QUEUE: ByteCount = ByteCount::new(1500);
/// Maximum queue, which is held in memory when packets are real.
const MAX_QUEUE: ByteCount = ByteCount::mib(1024);
/// Minimum MTU: the smallest packet that IPv4 requires a link to carry (RFC 791 section 3.2).
const MIN_MTU: ByteCount = ByteCount::new(68);
/// Maximum length of an IPv4 packet.
const MAX_PACKET: ByteCount = ByteCount::new(65_535);

/// Collects the mistakes of one link.
pub(super) struct Report<'a> {
    pub(super) link: &'a str,
    pub(super) mistakes: &'a mut Vec<LinkMistake>,
}

impl Report<'_> {
    pub(super) fn add(&mut self, key: &str, mistake: Mistake) {
        if self.mistakes.len() < MAX_MISTAKES {
            self.mistakes.push(LinkMistake {
                link: self.link.to_owned(),
                key: key.to_owned(),
                mistake,
            });
        }
    }

    pub(super) fn wrong<T>(&mut self, key: &str, found: &Value, expected: &'static str) -> Option<T> {
        let found = match found {
            Value::String(text) => text.clone(),
            Value::Table(_) => "a table".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => found.to_string(),
        };
        let found = found.chars().take(MAX_ECHO).collect();
        self.add(key, Mistake::Value { found, expected });
        None
    }
}

/// The fields of a table, each read once.
pub(super) struct Fields<'a> {
    key: &'a str,
    table: &'a Table,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// `key` is the position of the table, empty for a link itself.
    pub(super) fn new(key: &'a str, table: &'a Table) -> Self {
        Self {
            key,
            table,
            known: Vec::new(),
        }
    }

    pub(super) fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        }
    }

    pub(super) fn take(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.table.get(name)
    }

    /// Reads an optional field.
    pub(super) fn optional<T>(
        &mut self,
        report: &mut Report<'_>,
        name: &'static str,
        read: impl Fn(&mut Report<'_>, &str, &Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(name)?;
        read(report, &self.key_of(name), value)
    }

    /// Reads a required field.
    pub(super) fn required<T>(
        &mut self,
        report: &mut Report<'_>,
        name: &'static str,
        expected: &'static str,
        read: impl Fn(&mut Report<'_>, &str, &Value) -> Option<T>,
    ) -> Option<T> {
        let Some(value) = self.take(name) else {
            report.add(&self.key_of(name), Mistake::Missing { expected });
            return None;
        };
        read(report, &self.key_of(name), value)
    }

    /// Reports the fields that have not been read as unknown keys.
    pub(super) fn finish(self, report: &mut Report<'_>) {
        for name in self.table.keys() {
            if !self.known.contains(&name.as_str()) {
                let known = self.known.join(", ");
                report.add(&self.key_of(name), Mistake::UnknownKey { known });
            }
        }
    }
}

pub(super) const RATE: &str =
    "a rate above 0 with its unit (bit/s, kbit/s, Mbit/s, Gbit/s), such as \"39.6 kbit/s\"";
pub(super) const DELAY: &str = "a time of at most 60 s with its unit (us, ms, s), such as \"150 ms\"";
pub(super) const TIME: &str = "a time of at most 30 d with its unit (us, ms, s, min, h, d), such as \"40 s\"";
pub(super) const QUEUE: &str =
    "a size from 1500 B to 1 GiB with its unit (B, kB, MB, KiB, MiB), such as \"120 kB\"";
pub(super) const SIZE: &str = "a size above 0 with its unit (B, kB, MB, KiB, MiB), such as \"320 B\"";
pub(super) const MTU: &str = "a size from 68 B to 65535 B with its unit, such as \"1500 B\", or \"off\"";
pub(super) const PROBABILITY: &str = "a probability: a number from 0 to 1, or a share such as \"3 %\"";
pub(super) const COUNT: &str = "a whole number from 0 to 4294967295";
pub(super) const ATTEMPTS: &str = "a whole number from 1 to 4294967295";
pub(super) const PATH: &str = "the path of a trace file, in quotes";

pub(super) fn text<'v>(
    report: &mut Report<'_>,
    key: &str,
    value: &'v Value,
    expected: &'static str,
) -> Option<&'v str> {
    match value.as_str() {
        Some(text) => Some(text),
        None => report.wrong(key, value, expected),
    }
}

pub(super) fn rate(report: &mut Report<'_>, key: &str, value: &Value) -> Option<BitRate> {
    let rate = text(report, key, value, RATE)?.parse().ok();
    match rate.filter(|rate| *rate > BitRate::bps(0)) {
        Some(rate) => Some(rate),
        None => report.wrong(key, value, RATE),
    }
}

pub(super) fn delay(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Duration> {
    duration(report, key, value, MAX_DELAY, DELAY)
}

pub(super) fn time(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Duration> {
    duration(report, key, value, MAX_TIME, TIME)
}

fn duration(
    report: &mut Report<'_>,
    key: &str,
    value: &Value,
    max: Duration,
    expected: &'static str,
) -> Option<Duration> {
    let time = parse_duration(text(report, key, value, expected)?).ok();
    match time.filter(|time| *time <= max) {
        Some(time) => Some(time),
        None => report.wrong(key, value, expected),
    }
}

pub(super) fn queue(report: &mut Report<'_>, key: &str, value: &Value) -> Option<ByteCount> {
    bytes(report, key, value, (MIN_QUEUE, MAX_QUEUE), QUEUE)
}

pub(super) fn size(report: &mut Report<'_>, key: &str, value: &Value) -> Option<ByteCount> {
    bytes(report, key, value, (ByteCount::new(1), MAX_QUEUE), SIZE)
}

pub(super) fn mtu(report: &mut Report<'_>, key: &str, value: &Value) -> Option<ByteCount> {
    bytes(report, key, value, (MIN_MTU, MAX_PACKET), MTU)
}

fn bytes(
    report: &mut Report<'_>,
    key: &str,
    value: &Value,
    (min, max): (ByteCount, ByteCount),
    expected: &'static str,
) -> Option<ByteCount> {
    let amount: Option<ByteCount> = text(report, key, value, expected)?.parse().ok();
    match amount.filter(|amount| (min..=max).contains(amount)) {
        Some(amount) => Some(amount),
        None => report.wrong(key, value, expected),
    }
}

pub(super) fn probability(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Probability> {
    let number = match value {
        Value::Integer(0) => Some(0.0),
        Value::Integer(1) => Some(1.0),
        Value::Float(number) => Some(*number),
        Value::String(text) => percent(text),
        Value::Integer(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            None
        }
    };
    match number.and_then(|number| Probability::new(number).ok()) {
        Some(probability) => Some(probability),
        None => report.wrong(key, value, PROBABILITY),
    }
}

fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    Some(number / 100.0)
}

pub(super) fn count(report: &mut Report<'_>, key: &str, value: &Value) -> Option<u32> {
    whole(report, key, value, 0, COUNT)
}

pub(super) fn attempts(report: &mut Report<'_>, key: &str, value: &Value) -> Option<u32> {
    whole(report, key, value, 1, ATTEMPTS)
}

fn whole(report: &mut Report<'_>, key: &str, value: &Value, min: u32, expected: &'static str) -> Option<u32> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
    match number.filter(|number| *number >= min) {
        Some(number) => Some(number),
        None => report.wrong(key, value, expected),
    }
}
