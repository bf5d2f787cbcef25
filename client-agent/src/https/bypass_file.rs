//! The bypassed hosts on disk: the reasons for a bypass usually persist across restarts.
use std::{
    fs::File,
    io::{self, Read},
    time::Duration,
};

use parking_lot::Mutex;

use longhaul_types::UnixTime;
use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use super::{
    bypass_reason::BypassReason,
    bypasses::{BypassedHost, MAX_BYPASSES},
    program::ProgramId,
};
use crate::state_dir::{StateDir, StateError};

/// File in the state directory. It reveals visited sites, as the cache does.
const FILE: &str = "unaccelerated.json";
/// Maximum size of the file: all entries with names of maximum length (RFC 1035 section 2.3.4), their other
/// members, and names of programs in which every character is escaped.
const MAX_FILE: u64 = MAX_BYPASSES as u64 * (253 + 256 + 6 * 100);

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    host: String,
    why: BypassReason,
    /// Seconds since 1970.
    until: u64,
    #[serde(default)]
    program: Option<ProgramId>,
    #[serde(default)]
    program_name: Option<String>,
    #[serde(default = "once")]
    count: u32,
    #[serde(default)]
    everywhere: bool,
}

const fn once() -> u32 {
    1
}

/// The file of bypassed hosts.
#[derive(Debug)]
pub(super) struct BypassFile {
    state: StateDir,
    /// Serialises writers; the last one writes the newest state.
    writing: Mutex<()>,
}

impl BypassFile {
    pub(super) fn new(state: StateDir) -> Self {
        Self {
            state,
            writing: Mutex::default(),
        }
    }

    /// Reads the entries of an earlier run; returns none if the file is absent or unreadable.
    pub(super) fn read(&self) -> Vec<BypassedHost> {
        let path = self.state.path().join(FILE);
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                warn!(%error, file = FILE, "the list of bypassed hosts cannot be read");
                return Vec::new();
            }
        }
        let entries: Vec<Entry> = serde_json::from_str(&text).unwrap_or_else(|error| {
            // The text of the error may contain a host.
            warn!(
                line = error.line(),
                column = error.column(),
                file = FILE,
                "the list of bypassed hosts is damaged; a new list is started"
            );
            Vec::new()
        });
        let bypassed = entries.into_iter().take(MAX_BYPASSES).map(|entry| BypassedHost {
            host: entry.host,
            why: entry.why,
            until: UnixTime::new(Duration::from_secs(entry.until)),
            program: entry.program,
            program_name: entry.program_name,
            count: entry.count,
            everywhere: entry.everywhere,
        });
        bypassed.collect()
    }

    /// Writes the entries that `bypassed` returns after the lock is taken. Blocks. If the disk is full, the host
    /// is accelerated again after the next start, and then bypassed again.
    pub(super) fn write(&self, bypassed: impl FnOnce() -> Vec<BypassedHost>) {
        if let Err(error) = self.try_write(bypassed) {
            debug!(%error, "the list of bypassed hosts cannot be stored");
        }
    }

    /// [`Self::write`] with the error.
    pub(super) fn try_write(&self, bypassed: impl FnOnce() -> Vec<BypassedHost>) -> Result<(), StateError> {
        let _turn = self.writing.lock();
        let entries: Vec<Entry> = bypassed()
            .into_iter()
            .map(|bypassed| Entry {
                host: bypassed.host,
                why: bypassed.why,
                until: bypassed.until.since_epoch().as_secs(),
                program: bypassed.program,
                program_name: bypassed.program_name,
                count: bypassed.count,
                everywhere: bypassed.everywhere,
            })
            .collect();
        // Entries of plain members always have a JSON form.
        let text = serde_json::to_vec(&entries).unwrap_or_default();
        self.state.replace(FILE, &text)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::ClientId;

    use super::*;
    use crate::https::program::Program;

    #[test]
    fn bypassed_hosts_round_trip_and_damaged_files_are_ignored() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().to_owned());
        let kept = BypassFile::new(state.clone());
        assert_eq!(kept.read(), []);
        let program = Program::new(ClientId::OWNER, None);
        let bypassed: Vec<_> = (0..MAX_BYPASSES as u64)
            .map(|number| BypassedHost {
                host: format!("{number:0>253}"),
                why: BypassReason::RequestsClientCertificate,
                until: UnixTime::new(Duration::from_secs(1_700_000_000 + number)),
                program: Some(program.id(None)),
                program_name: Some("\"".repeat(100)),
                count: u32::MAX,
                everywhere: true,
            })
            .collect();
        kept.write(|| bypassed.clone());
        assert_eq!(kept.read(), bypassed);
        for damaged in [
            "",
            "{}",
            "[{\"host\":\"a.test\",\"why\":\"no-such\",\"until\":1}]",
        ] {
            state.replace(FILE, damaged.as_bytes()).unwrap();
            assert_eq!(kept.read(), [], "{damaged}");
        }
    }
}
