//! What the browser's processes use of the machine.
use std::{fs, time::Duration};

/// Processor time and memory of all processes of a browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since their start, of the processes that still run.
    pub cpu: Duration,
    /// Memory in bytes; memory that processes share counts once (proc(5), `Pss`).
    pub memory: u64,
}

/// Returns what the processes of a process group use; zero where the system has no `/proc`.
pub(crate) fn of_group(group: u32) -> Usage {
    let mut usage = Usage::default();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.map(|process| process.path()) {
        let Ok(stat) = fs::read_to_string(process.join("stat")) else {
            continue;
        };
        if group_of(&stat) != Some(group) {
            continue;
        }
        let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        let used = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        usage.cpu += Duration::from_nanos(used.sum());
        let memory = fs::read_to_string(process.join("smaps_rollup")).ok();
        usage.memory += memory.and_then(|text| shared_once(&text)).unwrap_or(0);
    }
    usage
}

/// The process group in a line of `/proc/PID/stat`; the name in parentheses may contain anything.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// `Pss` in bytes.
fn shared_once(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_memory_are_read() {
        assert_eq!(group_of("7 (a) b) S 1 42 42 0 -1"), Some(42));
        assert_eq!(group_of("7"), None);
        assert_eq!(
            shared_once("00-ff ---p\nRss:    100 kB\nPss:     64 kB\n"),
            Some(65_536)
        );
        assert_eq!(shared_once("Rss: 1 kB"), None);
    }
}
