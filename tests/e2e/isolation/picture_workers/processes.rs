//! The picture workers as processes: their number, memory and end.
use std::{collections::BTreeMap, process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::{
    task::JoinHandle,
    time::{interval, timeout},
};

use crate::pair::LIMIT;

/// The picture workers of a gateway.
pub(super) fn workers(gateway: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| parent(*pid) == Some(gateway)).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the preceding field may contain any characters, including parentheses.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    fields.nth(1)?.parse().ok()
}

/// True if the process is a picture worker and not a zombie.
pub(super) fn is_worker(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.windows(14).any(|part| part == b"picture-worker")
}

pub(super) fn memory(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

/// Peak memory of a gateway and its workers, and the workers seen.
#[derive(Debug, Default)]
pub(super) struct Peaks {
    /// Peak of all processes together.
    pub(super) together: u64,
    pub(super) gateway: u64,
    /// Peak of each worker alone.
    pub(super) workers: BTreeMap<u32, u64>,
}

pub(super) struct MemoryWatch(Arc<Mutex<Peaks>>, JoinHandle<()>);

impl MemoryWatch {
    pub(super) fn start(gateway: u32) -> Self {
        let peaks = Arc::new(Mutex::new(Peaks::default()));
        let seen = Arc::clone(&peaks);
        let task = tokio::spawn(async move {
            let mut looks = interval(POLL_INTERVAL);
            loop {
                looks.tick().await;
                let workers = workers(gateway);
                let mut peaks = seen.lock();
                let mut together = memory(gateway, "VmRSS:");
                for pid in workers {
                    together += memory(pid, "VmRSS:");
                    let own = peaks.workers.entry(pid).or_default();
                    *own = memory(pid, "VmHWM:").max(*own);
                }
                peaks.together = peaks.together.max(together);
                peaks.gateway = memory(gateway, "VmHWM:").max(peaks.gateway);
            }
        });
        Self(peaks, task)
    }

    pub(super) fn end(self) -> Peaks {
        self.1.abort();
        std::mem::take(&mut self.0.lock())
    }
}

pub(super) fn kill(pid: u32) -> Result<()> {
    // The process may have ended by itself.
    let _ended = Command::new("kill").args(["-9", &pid.to_string()]).output()?;
    Ok(())
}

pub(super) async fn wait_until(what: &str, reached: impl Fn() -> bool) -> Result<()> {
    let mut looks = interval(POLL_INTERVAL);
    let wait = async {
        while !reached() {
            looks.tick().await;
        }
    };
    timeout(LIMIT, wait).await.with_context(|| what.to_owned())
}

/// Interval of memory samples and of other checks.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(4);
