//! What is known of each device, and of each named client without an agent, across restarts: its last use, and its bytes in
//! all and in the month.
//!
//! The file `usage.json` of the state directory has the same. It is written once a minute if something changed,
//! and at the end of the gateway: a crash loses a minute at most.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use longhaul_types::{BitRate, PublicKey};
use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime};
use tracing::warn;

use super::metrics::LinkBytes;
use crate::admission::state::{StateDir, StateError};

/// Name of the file in the state directory.
pub const FILE: &str = "usage.json";
/// Version of the file; a new version may change the meaning of its fields.
const VERSION: u32 = 1;
/// Largest file that is read: 100,000 devices with 300 bytes each, and a reserve.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// Last second of the calendar, the year 9999: the file may have any number, and later times cannot be shown.
const LAST_TIME: u64 = 253_402_300_799;

/// A month of the calendar, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    year: i32,
    /// From 1 to 12; 0 for no month.
    month: u8,
}

impl Month {
    /// The month of a time.
    pub fn of(time: SystemTime) -> Self {
        let date = OffsetDateTime::from(time).date();
        Self {
            year: date.year(),
            month: date.month().into(),
        }
    }

    /// The time at which the next month begins.
    pub fn end(self) -> SystemTime {
        let (year, month) = if self.month == 12 {
            (self.year.saturating_add(1), 1)
        } else {
            (self.year, self.month + 1)
        };
        let first = time::Month::try_from(month)
            .ok()
            .and_then(|month| Date::from_calendar_date(year, month, 1).ok());
        // Only a clock at the end of the calendar has no next month.
        first.map_or(SystemTime::UNIX_EPOCH, |first| {
            first.midnight().assume_utc().into()
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (year, month) = text.split_once('-')?;
        let (year, month) = (year.parse().ok()?, month.parse().ok()?);
        (1..=12).contains(&month).then_some(Self { year, month })
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// What is known of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Time of the last packet from the device, to within a second.
    pub heard: Option<SystemTime>,
    /// Program and version of the agent, as it names itself.
    pub software: Option<String>,
    /// Rate of the link towards the device, as the last session knew it.
    pub link: Option<BitRate>,
    /// Bytes of all sessions, with IP and UDP headers.
    pub total: LinkBytes,
    month: Month,
    in_month: LinkBytes,
}

impl DeviceUsage {
    /// Counts bytes of a session.
    pub fn count(&mut self, bytes: LinkBytes, now: SystemTime) {
        let month = Month::of(now);
        // A clock that was set back does not begin an earlier month anew.
        if month > self.month {
            self.month = month;
            self.in_month = LinkBytes::default();
        }
        self.total = self.total.plus(bytes);
        self.in_month = self.in_month.plus(bytes);
    }

    /// Bytes in the month of this time.
    pub fn in_month(&self, now: SystemTime) -> LinkBytes {
        if Month::of(now) > self.month {
            LinkBytes::default()
        } else {
            self.in_month
        }
    }
}

/// Errors of reading the file.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file has unexpected contents.
    #[error("{path} is damaged: {problem}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Deserialize, Serialize)]
struct Document {
    version: u32,
    devices: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize, Serialize)]
struct Entry {
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    software: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link_bps: Option<u64>,
    up: u64,
    down: u64,
    month: String,
    month_up: u64,
    month_down: u64,
}

/// Reads the file. What cannot be read counts as nothing: a gateway without counts still serves. The unreadable file
/// is kept beside the new one.
pub fn load(state: &StateDir) -> BTreeMap<PublicKey, DeviceUsage> {
    match read(state) {
        Ok(devices) => devices,
        Err(error) => {
            let aside = state.file("usage.json.damaged");
            // Without a copy the next writing replaces it.
            let _kept = fs::rename(state.file(FILE), &aside);
            warn!(%error, kept = %aside.display(), "bytes and last use of devices are counted anew, quotas included");
            BTreeMap::new()
        }
    }
}

/// Reads the file beside another gateway; what cannot be read counts as nothing.
pub fn peek(state: &StateDir) -> BTreeMap<PublicKey, DeviceUsage> {
    read(state).unwrap_or_default()
}

fn read(state: &StateDir) -> Result<BTreeMap<PublicKey, DeviceUsage>, UsageError> {
    let path = state.file(FILE);
    let size = match fs::metadata(&path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(UsageError::Read { path, source }),
    };
    if size > MAX_FILE {
        let problem = format!("it has {size} bytes");
        return Err(UsageError::Damaged { path, problem });
    }
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(UsageError::Read { path, source }),
    };
    parse(&text).map_err(|problem| UsageError::Damaged { path, problem })
}

/// Parses the text of the file.
pub fn parse(text: &str) -> Result<BTreeMap<PublicKey, DeviceUsage>, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        return Err(format!("it has version {}", document.version));
    }
    let devices = document.devices.into_iter().map(|(key, entry)| {
        let key = key.parse().map_err(|error| format!("`{key}`: {error}"))?;
        let month = Month::parse(&entry.month).ok_or_else(|| format!("`{}` is no month", entry.month))?;
        let usage = DeviceUsage {
            heard: entry
                .seen
                .map(|seen| SystemTime::UNIX_EPOCH + Duration::from_secs(seen.min(LAST_TIME))),
            software: entry.software,
            link: entry.link_bps.map(BitRate::bps),
            total: LinkBytes {
                sent: entry.down,
                received: entry.up,
            },
            month,
            in_month: LinkBytes {
                sent: entry.month_down,
                received: entry.month_up,
            },
        };
        Ok((key, usage))
    });
    devices.collect()
}

/// Writes what is known of the devices and clients in the lists.
///
/// # Errors
/// The file cannot be written.
pub fn store(
    state: &StateDir,
    devices: &BTreeMap<PublicKey, DeviceUsage>,
    listed: &BTreeSet<PublicKey>,
) -> Result<(), StateError> {
    let kept = devices.iter().filter(|(key, _)| listed.contains(key));
    state.replace(FILE, &encode(kept))
}

/// The text of the file.
fn encode<'a>(devices: impl Iterator<Item = (&'a PublicKey, &'a DeviceUsage)>) -> Vec<u8> {
    let entries = devices.map(|(key, usage)| {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
        let month = if usage.month == Month::default() {
            Month::of(SystemTime::UNIX_EPOCH)
        } else {
            usage.month
        };
        let entry = Entry {
            seen: usage.heard.and_then(since).map(|since| since.as_secs()),
            software: usage.software.clone(),
            link_bps: usage.link.map(BitRate::as_bps),
            up: usage.total.received,
            down: usage.total.sent,
            month: month.to_string(),
            month_up: usage.in_month.received,
            month_down: usage.in_month.sent,
        };
        (key.to_string(), entry)
    });
    let document = Document {
        version: VERSION,
        devices: entries.collect(),
    };
    // Maps of numbers and strings always serialise.
    serde_json::to_vec(&document).unwrap_or_default()
}

/// The text of the file as this program writes the same devices.
///
/// # Errors
/// The text is no such file; the error says why.
pub fn reencode_usage(text: &str) -> Result<Vec<u8>, String> {
    Ok(encode(parse(text)?.iter()))
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    /// 2026-11-30 23:59:59 UTC.
    const LAST_SECOND: Duration = Duration::from_secs(1_796_083_199);

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_bytes([seed; 32]).public()
    }

    fn bytes(sent: u64, received: u64) -> LinkBytes {
        LinkBytes { sent, received }
    }

    #[test]
    fn a_month_ends_at_midnight_utc_and_a_clock_that_is_set_back_begins_no_new_one() {
        let november = SystemTime::UNIX_EPOCH + LAST_SECOND;
        let december = november + Duration::from_secs(1);
        assert_eq!(Month::of(november).to_string(), "2026-11");
        assert_eq!(Month::of(november).end(), december);
        assert_eq!(Month::of(december).to_string(), "2026-12");
        assert_eq!(Month::of(Month::of(december).end()).to_string(), "2027-01");
        let mut usage = DeviceUsage::default();
        usage.count(bytes(1, 2), november);
        assert_eq!(usage.in_month(november), bytes(1, 2));
        assert_eq!(usage.in_month(december), bytes(0, 0));
        usage.count(bytes(10, 20), december);
        usage.count(bytes(100, 200), november);
        assert_eq!(usage.in_month(december), bytes(110, 220));
        assert_eq!(usage.total, bytes(111, 222));
    }

    #[test]
    fn the_file_keeps_what_is_known_of_listed_devices() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        assert!(load(&state).is_empty());
        let mut usage = DeviceUsage {
            heard: Some(SystemTime::UNIX_EPOCH + LAST_SECOND),
            software: Some("longhaul-agent/1".to_owned()),
            link: Some(BitRate::kbps(384)),
            ..DeviceUsage::default()
        };
        usage.count(bytes(7, 9), SystemTime::UNIX_EPOCH + LAST_SECOND);
        let known = BTreeMap::from([(key(1), usage.clone()), (key(2), usage.clone())]);
        store(&state, &known, &[key(1)].into()).unwrap();
        assert_eq!(load(&state), [(key(1), usage)].into());
    }

    #[test]
    fn a_damaged_file_is_kept_beside_the_new_one() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        for text in [
            "",
            "{}",
            "{\"version\":2,\"devices\":{}}",
            "{\"version\":1,\"devices\":{\"x\":{}}}",
        ] {
            fs::write(state.file(FILE), text).unwrap();
            assert!(load(&state).is_empty());
            assert_eq!(
                fs::read_to_string(state.file("usage.json.damaged")).unwrap(),
                text
            );
        }
    }
}
